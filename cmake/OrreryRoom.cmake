# orrery_library(NAME BASE [LINK libraries..] [EXTRA folders..]): the room of this folder called NAME as the static library orrery_NAME, on BASE
# and what LINK names. One library a room, so that a change rebuilds little; sources are globbed: a new file needs no entry. EXTRA: further
# folders whose sources belong to it. A room without sources is none.
# SOON: compiled fast, into slower code.
function(orrery_library name base)
  cmake_parse_arguments(ARG "SOON" "" "LINK;EXTRA" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${name}/*.cpp)
  foreach(extra ${ARG_EXTRA})
    file(GLOB more CONFIGURE_DEPENDS ${extra}/*.cpp)
    list(APPEND sources ${more})
  endforeach()
  if(NOT sources)
    return()
  endif()
  add_library(orrery_${name} STATIC ${sources})
  target_include_directories(orrery_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(orrery_${name} PUBLIC ${base} ${ARG_LINK} PRIVATE nlohmann_json::nlohmann_json fmt::fmt)
  orrery_together(orrery_${name})
  if(ARG_SOON)
    orrery_soon(orrery_${name})
  else()
    orrery_precompiled(orrery_${name} orrery)
  endif()
endfunction()

# With ORRERY_UNITY, TARGET's sources are compiled eight at a time. Names that shadow those of another source are no fault then.
function(orrery_together target)
  if(ORRERY_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-shadow> $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()
