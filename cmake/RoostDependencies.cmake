# Libraries from Debian, and llama.cpp from the cache folder.
find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS json url)
find_package(OpenSSL REQUIRED)
find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(HIREDIS REQUIRED IMPORTED_TARGET hiredis)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
if(ROOST_TESTS)
  find_package(GTest REQUIRED)
endif()

# Asio and Beast compiled once instead of in every file.
add_library(roost_asio STATIC ${CMAKE_SOURCE_DIR}/src/net/asio_impl.cpp)
target_compile_definitions(roost_asio PUBLIC BOOST_ASIO_SEPARATE_COMPILATION BOOST_BEAST_SEPARATE_COMPILATION
  BOOST_ASIO_NO_DEPRECATED)
target_link_libraries(roost_asio PUBLIC Boost::headers OpenSSL::SSL OpenSSL::Crypto Threads::Threads)
if(ROOST_SANITIZE)
  target_compile_options(roost_asio PRIVATE -fsanitize=${ROOST_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(roost_asio PUBLIC -fsanitize=${ROOST_SANITIZE})
  target_compile_options(roost_asio PRIVATE -Wno-tsan)
endif()

if(ROOST_LLAMA)
  if(NOT ROOST_LLAMA_DIR)
    execute_process(COMMAND ${CMAKE_SOURCE_DIR}/scripts/build-llama.sh OUTPUT_VARIABLE ROOST_LLAMA_DIR
      OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  endif()
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  add_library(roost_libllama INTERFACE)
  target_include_directories(roost_libllama SYSTEM INTERFACE ${ROOST_LLAMA_DIR}/include/include
    ${ROOST_LLAMA_DIR}/include/ggml ${ROOST_LLAMA_DIR}/include/common ${ROOST_LLAMA_DIR}/include/vendor)
  target_compile_definitions(roost_libllama INTERFACE ROOST_LLAMA_VERSION="v0.5.0")
  file(GLOB ROOST_LLAMA_LIBS ${ROOST_LLAMA_DIR}/lib/*.a)
  target_link_libraries(roost_libllama INTERFACE -Wl,--start-group ${ROOST_LLAMA_LIBS} -Wl,--end-group
    OpenMP::OpenMP_CXX Threads::Threads ${CMAKE_DL_LIBS})
endif()
