# Functions that give our own targets their flags. Every flag here is PRIVATE to a target: nothing is global, nothing
# reaches a project that links us.

# linchpin_sources(<out> <glob>...): the sources matching the globs, noticed by the next build when one is added or removed.
function(linchpin_sources out)
  file(GLOB found CONFIGURE_DEPENDS LIST_DIRECTORIES false ${ARGN})
  list(SORT found)
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# linchpin_own(<target>): language level, warnings and floating-point rules of everything we compile.
function(linchpin_own target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
    return()
  endif()

  # Where the machine has fused multiply-add, GCC may contract a*b+c by default, differently from one inlining to the
  # next. The same source would then give different bits per target and per build; we promise the same bits.
  target_compile_options(${target} PRIVATE -ffp-contract=off)

  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-align -Wextra-semi -Wunused
    -Wformat=2)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    if(LINCHPIN_BATCHES)
      # GCC looks for unused memory less often, which takes a tenth less time and a tenth more memory.
      target_compile_options(${target} PRIVATE --param=ggc-min-heapsize=1000000)
    endif()
    target_compile_options(${target} PRIVATE -Wsuggest-override -Wduplicated-cond -Wlogical-op)
    # These four come from the optimiser and blame inlined Eigen kernels for paths that cannot be taken.
    target_compile_options(${target} PRIVATE
      -Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow -Wno-restrict)
  endif()
  if(LINCHPIN_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()

# linchpin_library_file(<target> <name>): how liblinchpin-<name> is named, and what a shared one exports.
function(linchpin_library_file target name)
  # Public headers are C++20, whatever the consumer's default is.
  target_compile_features(${target} PUBLIC cxx_std_20)
  # The definitions of linchpin/export.h. Both precisions of an adapter have the same ones.
  string(REGEX REPLACE "-.*" "" macro ${name})
  string(TOUPPER LINCHPIN_${macro} macro)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "SHARED_LIBRARY")
    target_compile_definitions(${target} PUBLIC ${macro}_SHARED)
  endif()
  set_target_properties(${target} PROPERTIES
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    DEFINE_SYMBOL ${macro}_BUILD
    EXPORT_NAME ${name}
    OUTPUT_NAME linchpin-${name}
    VERSION ${PROJECT_VERSION}
    # Before 1.0 a minor version may break the ABI, so it is part of the soname.
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    INSTALL_RPATH $ORIGIN)
endfunction()

# linchpin_library(<target> <name>): what all installed libraries share. <name> is the name after linchpin::, the file is
# liblinchpin-<name>, the install component and the export set are <name>, so that find_package components match.
function(linchpin_library target name)
  linchpin_own(${target})
  linchpin_library_file(${target} ${name})
  add_library(linchpin::${name} ALIAS ${target})
  install(TARGETS ${target} EXPORT linchpin-${name}
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${name}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${name}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${name}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  set_property(GLOBAL APPEND PROPERTY LINCHPIN_COMPONENTS ${name})
endfunction()

# For what spends its time in the libraries, which are built as users build them: it only has to compile soon.
function(linchpin_light target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# Sets <result> to whether a target is compiled in batches. LINCHPIN_BATCHES=TESTS leaves out the libraries that are
# installed, which have an EXPORT_NAME.
function(linchpin_has_batches result target)
  get_target_property(library ${target} EXPORT_NAME)
  set(${result} ON PARENT_SCOPE)
  if(NOT LINCHPIN_BATCHES OR (LINCHPIN_BATCHES STREQUAL "TESTS" AND library))
    set(${result} OFF PARENT_SCOPE)
  endif()
endfunction()

# linchpin_headers(<target> [SHARED_BY <group>] [<header>...]): with LINCHPIN_BATCHES, the compiler reads the named
# headers once for the whole target, or once for all targets of a group. These must have the same compile options.
# LINCHPIN_BATCHES=TESTS leaves out our own headers in the libraries, so that a missing #include of one is still found.
function(linchpin_headers target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SHARED_BY" "")
  linchpin_has_batches(batches ${target})
  set(headers ${arg_UNPARSED_ARGUMENTS})
  if(NOT batches)
    list(FILTER headers INCLUDE REGEX "^<")
    list(FILTER headers EXCLUDE REGEX "^<linchpin/")
  endif()
  if(NOT LINCHPIN_BATCHES OR NOT headers)
    return()
  endif()
  get_property(first GLOBAL PROPERTY LINCHPIN_HEADERS_OF_${arg_SHARED_BY})
  if(arg_SHARED_BY AND first)
    target_precompile_headers(${target} REUSE_FROM ${first})
    return()
  endif()
  target_precompile_headers(${target} PRIVATE ${headers})
  set_property(GLOBAL PROPERTY LINCHPIN_HEADERS_OF_${arg_SHARED_BY} ${target})
endfunction()

# linchpin_batches(<target> <size> [SHARED_BY <group>] [<header>...]): with LINCHPIN_BATCHES, as many sources as <size>
# are compiled as one, so that the compiler reads the headers, which are most of its work, once for all of them. The named
# headers are those of linchpin_headers(), which a target of one batch does not need of its own. They take as long as
# two batches that read the headers themselves. A source that has compile options of its own is always compiled alone. Private functions of two
# sources must not share a name: a call could find the wrong overload (tests/architecture/private_names.cpp). A local
# name may hide a name of another source, so -Wshadow is off.
function(linchpin_batches target size)
  linchpin_has_batches(batches ${target})
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources count)
  if(NOT batches OR count GREATER size OR "SHARED_BY" IN_LIST ARGN)
    linchpin_headers(${target} ${ARGN})
  endif()
  if(NOT batches)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${size})
  if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
    target_compile_options(${target} PRIVATE -Wno-shadow)
  endif()
  file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/batches/${target}.txt
    CONTENT "$<TARGET_PROPERTY:${target},SOURCE_DIR>\n$<JOIN:$<TARGET_PROPERTY:${target},SOURCES>,\n>\n")
endfunction()
