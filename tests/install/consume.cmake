# Configures, builds and runs CONSUMER against STAGE; with FAILS, expects CMake to refuse it with a matching message. With
# SAME_AS, compares what it prints with what that other consumer has printed.
file(REMOVE_RECURSE ${BINARY})
execute_process(
  COMMAND ${CMAKE_COMMAND} -S ${CONSUMER} -B ${BINARY} -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${STAGE}
    -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=${BUILD_TYPE} -DCMAKE_CXX_FLAGS=${FLAGS} ${OPTIONS}
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
message("${output}")

if(FAILS)
  if(result EQUAL 0)
    message(FATAL_ERROR "CMake accepted a project that it must refuse")
  endif()
  # CMake folds long messages; the words count, not where the lines break.
  string(REGEX REPLACE "[ \n]+" " " folded "${output}")
  if(NOT folded MATCHES "${FAILS}")
    message(FATAL_ERROR "CMake refused the project, but not for the reason: ${FAILS}")
  endif()
  return()
endif()

if(NOT result EQUAL 0)
  message(FATAL_ERROR "the consumer was not configured")
endif()
execute_process(COMMAND ${CMAKE_COMMAND} --build ${BINARY} RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "the consumer was not built")
endif()
execute_process(COMMAND ${BINARY}/consumer RESULT_VARIABLE result OUTPUT_FILE ${BINARY}/printed)
file(READ ${BINARY}/printed printed)
message("${printed}")
if(NOT result EQUAL 0)
  message(FATAL_ERROR "the consumer ran and returned ${result}")
endif()
if(SAME_AS)
  get_filename_component(folder ${BINARY} DIRECTORY)
  execute_process(COMMAND ${CMAKE_COMMAND} -E compare_files ${BINARY}/printed ${folder}/${SAME_AS}/printed
    RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "the consumer printed something else than ${SAME_AS}")
  endif()
endif()
