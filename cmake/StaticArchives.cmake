# Finds archives of the system's libraries, for a program that is to run where they are not installed:
#   asterism_static_archives(ARCHIVES files FOUND found absl_* yaml-cpp)
# FOUND is false when one of the patterns has none.
function(asterism_static_archives)
  cmake_parse_arguments(ARG "" "ARCHIVES;FOUND" "" ${ARGN})
  set(files)
  set(found TRUE)
  foreach(pattern ${ARG_UNPARSED_ARGUMENTS})
    file(GLOB matches ${CMAKE_INSTALL_PREFIX}/lib/lib${pattern}.a /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/lib${pattern}.a
         /usr/lib/lib${pattern}.a)
    if(NOT matches)
      set(found FALSE)
    endif()
    list(APPEND files ${matches})
  endforeach()
  set(${ARG_ARCHIVES} ${files} PARENT_SCOPE)
  set(${ARG_FOUND} ${found} PARENT_SCOPE)
endfunction()
