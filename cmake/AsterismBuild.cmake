# Compiler settings, and the two functions that every folder uses:
#   asterism_library(NAME scheduler SOURCES ... DEPS asterism::topology absl::strings)
#   asterism_test(NAME scheduler_test SOURCES ... DEPS asterism::scheduler)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

option(ASTERISM_TESTS "Build the tests" ON)
option(ASTERISM_UNITY "Compile the files of a folder together (fast from cold)" OFF)
set(ASTERISM_SANITIZE "" CACHE STRING "address;undefined or thread")
option(ASTERISM_FUZZ "Build the libFuzzer targets (clang only)" OFF)

# Line tables are what a stack trace needs; full debug information doubles compile and link time.
string(REPLACE "-g" "-g1" CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_CXX_FLAGS_RELWITHDEBINFO}")
string(REPLACE "-DNDEBUG" "" CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_CXX_FLAGS_RELWITHDEBINFO}")

# The same bytes in every clone, for the compiler's cache and for the images.
add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)

find_program(ASTERISM_CCACHE ccache)
if(ASTERISM_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ASTERISM_CCACHE})
endif()
find_program(ASTERISM_LLD ld.lld)
if(ASTERISM_LLD)
  add_link_options(-fuse-ld=lld)
endif()

set(ASTERISM_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
    -Wconversion -Wextra-semi -Werror
    # A designated initializer names what differs; the rest has its default.
    -Wno-missing-field-initializers)
if(ASTERISM_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC takes a .cc that another file includes for a header, and warns of its anonymous namespaces.
  list(APPEND ASTERISM_WARNINGS -Wno-subobject-linkage)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # At -O3 GCC 12 warns of overlapping copies in std::string that cannot be (GCC bug 105651), and of
  # members of std::optional and std::string that are never read uninitialised (GCC bug 105562).
  list(APPEND ASTERISM_WARNINGS $<$<CONFIG:Release>:-Wno-restrict> $<$<CONFIG:Release>:-Wno-maybe-uninitialized>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  list(APPEND ASTERISM_WARNINGS -Wthread-safety)
endif()

if(ASTERISM_SANITIZE)
  string(REPLACE ";" "," _sanitizers "${ASTERISM_SANITIZE}")
  add_compile_options(-fsanitize=${_sanitizers} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${_sanitizers})
endif()
if(ASTERISM_SANITIZE MATCHES "thread")
  # The distribution's Abseil is not instrumented; see the file.
  set(_tsan_abseil ${CMAKE_CURRENT_LIST_DIR}/tsan_abseil.cc)
  file(STRINGS ${_tsan_abseil} _wrapped REGEX "WRAP\\(_Z")
  foreach(_line ${_wrapped})
    string(REGEX REPLACE ".*WRAP\\((_Z[A-Za-z0-9_]+)\\).*" "\\1" _symbol "${_line}")
    add_link_options(-Wl,--wrap=${_symbol})
  endforeach()
  add_library(asterism_tsan_abseil OBJECT ${_tsan_abseil})
endif()
if(ASTERISM_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_package(Threads REQUIRED)

# One static library per folder. Includes are written from the root: "base/clock.h".
function(asterism_library)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;DEPS" ${ARGN})
  add_library(asterism_${ARG_NAME} STATIC ${ARG_SOURCES})
  add_library(asterism::${ARG_NAME} ALIAS asterism_${ARG_NAME})
  target_include_directories(asterism_${ARG_NAME} PUBLIC ${CMAKE_SOURCE_DIR})
  target_compile_options(asterism_${ARG_NAME} PRIVATE ${ASTERISM_WARNINGS})
  target_link_libraries(asterism_${ARG_NAME} PUBLIC ${ARG_DEPS})
  set_target_properties(asterism_${ARG_NAME} PROPERTIES UNITY_BUILD ${ASTERISM_UNITY}
                        UNITY_BUILD_BATCH_SIZE 8)
endfunction()

# A program with a main of its own.
function(asterism_program)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;DEPS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_include_directories(${ARG_NAME} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(${ARG_NAME} PRIVATE ${ASTERISM_WARNINGS})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} $<TARGET_NAME_IF_EXISTS:asterism_tsan_abseil>)
endfunction()

# A benchmark. Not with sanitizers: they slow it down, and some count allocations with a
# replacement of operator new, which is the sanitizer's own there.
function(asterism_benchmark)
  if(NOT ASTERISM_SANITIZE)
    asterism_program(${ARGN})
    target_link_libraries(${ARGV1} PRIVATE asterism::source_tree)
  endif()
endfunction()

# One GoogleTest binary per folder; ctest runs it as one test (NAME).
function(asterism_test)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;DEPS" ${ARGN})
  asterism_program(NAME ${ARG_NAME} SOURCES ${ARG_SOURCES}
                   DEPS ${ARG_DEPS} asterism::source_tree GTest::gmock GTest::gtest_main)
  set_target_properties(${ARG_NAME} PROPERTIES UNITY_BUILD ${ASTERISM_UNITY}
                        UNITY_BUILD_BATCH_SIZE 8)
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME})
  set_tests_properties(${ARG_NAME} PROPERTIES TIMEOUT 300)
endfunction()

# A libFuzzer target, only in the fuzz preset. SOURCES holds LLVMFuzzerTestOneInput.
function(asterism_fuzz)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;DEPS" ${ARGN})
  if(ASTERISM_FUZZ)
    asterism_program(NAME ${ARG_NAME} SOURCES ${ARG_SOURCES} DEPS ${ARG_DEPS})
    target_link_options(${ARG_NAME} PRIVATE -fsanitize=fuzzer)
  endif()
endfunction()
