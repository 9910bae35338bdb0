# orrery_embed(TARGET SYMBOL PATTERN..): compiles the files that match into TARGET as
# `std::span<const orrery::EmbeddedFile> orrery::SYMBOL()`, sorted by name. A new file is picked up by the next build.
function(orrery_embed target symbol)
  file(GLOB files CONFIGURE_DEPENDS ${ARGN})
  set(out ${CMAKE_CURRENT_BINARY_DIR}/embedded/${symbol}.cpp)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DSYMBOL=${symbol} "-DFILES=${files}" -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
  set_source_files_properties(${out} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)   # all of them name their tables alike
  target_sources(${target} PRIVATE ${out})
endfunction()

# orrery_stamp(TARGET SYMBOL PATTERN..): compiles into TARGET `const char* orrery::SYMBOL()`, a hash of the files that match.
function(orrery_stamp target symbol)
  file(GLOB files CONFIGURE_DEPENDS ${ARGN})
  set(out ${CMAKE_CURRENT_BINARY_DIR}/embedded/${symbol}.cpp)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DSYMBOL=${symbol} -DROOT=${PROJECT_SOURCE_DIR} "-DFILES=${files}"
            -P ${PROJECT_SOURCE_DIR}/cmake/stamp.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/stamp.cmake VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()
