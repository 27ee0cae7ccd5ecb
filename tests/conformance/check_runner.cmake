# Runs RUNNER on SCENARIOS, and wants EXIT_CODE and a line that matches OUTPUT.
execute_process(
  COMMAND ${RUNNER} --scenarios ${SCENARIOS}
  RESULT_VARIABLE result
  OUTPUT_VARIABLE output
  ERROR_VARIABLE output)
if(NOT result STREQUAL EXIT_CODE)
  message(FATAL_ERROR "exit code ${result}, not ${EXIT_CODE}\n${output}")
endif()
if(NOT output MATCHES "${OUTPUT}")
  message(FATAL_ERROR "no \"${OUTPUT}\" in\n${output}")
endif()
