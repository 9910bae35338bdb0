# Writes OUT: SYMBOL(), a hash of FILES' names below ROOT and contents. Two checkouts of the same files have the same.
set(all "")
foreach(file ${FILES})
  file(RELATIVE_PATH name ${ROOT} ${file})
  file(SHA256 ${file} hash)
  string(APPEND all "${name} ${hash}\n")
endforeach()
string(SHA256 stamp "${all}")
file(WRITE ${OUT} "// Generated from the files that it is a hash of; do not edit.\nnamespace orrery {\n\nconst char* ${SYMBOL}();\nconst char* ${SYMBOL}() { return \"${stamp}\"; }\n\n} // namespace orrery\n")
