# Language level, warnings, sanitizers, compiler cache and linker for every target of ours.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE_PROGRAM})
endif()
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM)
  add_link_options(-fuse-ld=mold)
endif()

# Boost 1.74's awaitable.hpp uses std::exchange without <utility>; see g++ 12 and C++20.
add_compile_options(-include utility)

# What every target of ours compiles with; the libraries' headers are system headers.
add_library(parley_options INTERFACE)
# maybe-uninitialized: g++ 12 reports the inactive member of a std::variant when it inlines a callback.
target_compile_options(parley_options INTERFACE -Wall -Wextra -Wpedantic -Werror
  $<$<NOT:$<CONFIG:Debug>>:-Wno-maybe-uninitialized>)
target_compile_definitions(parley_options INTERFACE
  PARLEY_VERSION="${PROJECT_VERSION}" $<$<BOOL:${PARLEY_FAULTS}>:PARLEY_FAULTS=1>)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  # _FORTIFY_SOURCE and full RELRO: the usual hardening of a network server.
  target_compile_options(parley_options INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong)
  add_link_options(-Wl,-z,relro,-z,now)
else()
  target_compile_definitions(parley_options INTERFACE _GLIBCXX_ASSERTIONS)
endif()
if(PARLEY_SANITIZER STREQUAL "address")
  # null: CAF's spawn code forms null references it never reads (init_fun_factory.hpp).
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=null -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
elseif(PARLEY_SANITIZER STREQUAL "thread")
  # tsan: Asio has fences, which ThreadSanitizer does not model; its own synchronisation is seen by mutexes.
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer -Wno-tsan)
  add_link_options(-fsanitize=thread)
endif()

# parley_pch(TARGET header...): precompiles the named library headers for one target.
function(parley_pch target)
  if(PARLEY_PCH)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()
