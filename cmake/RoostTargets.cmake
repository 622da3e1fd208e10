# How a part of Roost and its tests are declared.

add_library(roost_flags INTERFACE)
target_include_directories(roost_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(roost_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
  -Woverloaded-virtual -Wnull-dereference -Wformat=2 -Werror
  # g++ 12 reports these falsely inside coroutines and std::variant at -O2.
  -Wno-error=maybe-uninitialized -Wno-maybe-uninitialized -Wno-null-dereference -Wno-restrict
  -Wno-mismatched-new-delete)
if(ROOST_SANITIZE)
  target_compile_options(roost_flags INTERFACE -fsanitize=${ROOST_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(roost_flags INTERFACE -fsanitize=${ROOST_SANITIZE})
  if(ROOST_SANITIZE MATCHES thread)
    target_compile_options(roost_flags INTERFACE -Wno-tsan)
  endif()
endif()

option(ROOST_PCH "Precompile the library headers that most files include" OFF)

# Parts without Asio (kv, engine, core) compile fast enough as they are.
function(roost_precompile target)
  get_target_property(links ${target} LINK_LIBRARIES)
  if(ROOST_PCH AND links MATCHES "roost_(net|asio|store|agent|worker|sandbox|host|api|handoff)")
    target_precompile_headers(${target} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/pch.h)
  endif()
endfunction()

# roost_part(NAME SOURCES a.cpp ... LINK roost_core ...): the static library roost_NAME of src/NAME.
function(roost_part name)
  cmake_parse_arguments(PART "" "" "SOURCES;LINK" ${ARGN})
  add_library(roost_${name} STATIC ${PART_SOURCES})
  target_link_libraries(roost_${name} PUBLIC roost_flags ${PART_LINK})
  roost_precompile(roost_${name})
endfunction()

# roost_test(NAME SOURCES a_test.cpp ... LINK roost_kv ...): a GoogleTest program unit_NAME, run by ctest as NAME.
function(roost_test name)
  cmake_parse_arguments(TEST "" "" "SOURCES;LINK" ${ARGN})
  add_executable(unit_${name} ${TEST_SOURCES})
  target_link_libraries(unit_${name} PRIVATE roost_flags ${TEST_LINK} GTest::gmock GTest::gtest_main)
  roost_precompile(unit_${name})
  add_test(NAME ${name} COMMAND unit_${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 300)
endfunction()
