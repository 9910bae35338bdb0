# orrery_library(NAME BASE [LINK libraries..] [EXTRA folders..]): the room of this folder called NAME as the static library orrery_NAME, on BASE
# and what LINK names. One library a room, so that a change rebuilds little; sources are globbed: a new file needs no entry. EXTRA: further
# folders whose sources belong to it. A room without sources is none.
function(orrery_library name base)
  cmake_parse_arguments(ARG "" "" "LINK;EXTRA" ${ARGN})
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
  orrery_precompiled(orrery_${name} orrery)
endfunction()
