# Headers that most files of a kind read are compiled once. ORRERY_PRECOMPILE=OFF does without, and shows an include that is missing.
option(ORRERY_PRECOMPILE "Compile the headers that most files read once" ON)

# orrery_precompile(NAME libraries.. DEFINITIONS definitions.. HEADERS headers..): HEADERS as the set NAME, compiled with what LIBRARIES ask for.
function(orrery_precompile name)
  cmake_parse_arguments(ARG "" "" "DEFINITIONS;HEADERS" ${ARGN})
  if(NOT ORRERY_PRECOMPILE)
    return()
  endif()
  set(source ${CMAKE_BINARY_DIR}/precompiled/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "// Generated: a set of precompiled headers needs one source.\n")
  add_library(${name}_precompiled OBJECT ${source})
  target_link_libraries(${name}_precompiled PRIVATE ${ARG_UNPARSED_ARGUMENTS})
  target_compile_definitions(${name}_precompiled PRIVATE ${ARG_DEFINITIONS})
  list(TRANSFORM ARG_HEADERS REPLACE "(.+)" "<\\1>")
  target_precompile_headers(${name}_precompiled PRIVATE ${ARG_HEADERS})
  set_target_properties(${name}_precompiled PROPERTIES AUTOMOC OFF)
endfunction()

# orrery_precompiled(TARGET NAME): TARGET's files start with the set NAME. Its options and macros must be those that the set was compiled with.
function(orrery_precompiled target name)
  if(ORRERY_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${name}_precompiled)
  endif()
endfunction()

# TARGET is compiled in little more than half the time, into slower code. At -Og GCC warns wrongly of what may be uninitialized.
function(orrery_compile_soon target)
  if(TARGET ${target})
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Og> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  endif()
endfunction()

# The same with precompiled headers.
function(orrery_soon target)
  orrery_compile_soon(${target})
  orrery_precompiled(${target} orrery_soon)
endfunction()
