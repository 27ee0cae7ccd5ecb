# What `cmake --install` puts where. Everything finds its neighbours from where
# it stands, so that the prefix can be moved.
include(CMakePackageConfigHelpers)

install(TARGETS retry_guard_policy retry_guard_interceptor retry_guard_testing
  EXPORT retry_guardTargets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
# The libraries of a shared build need each other.
foreach(library IN ITEMS policy interceptor testing)
  set_target_properties(retry_guard_${library} PROPERTIES INSTALL_RPATH "$ORIGIN")
endforeach()

# Not call/ and config/: they are nobody's business.
install(FILES
  retry_guard/channel.h
  retry_guard/decision.h
  retry_guard/guard.h
  retry_guard/interceptor.h
  retry_guard/limiter.h
  retry_guard/observer.h
  retry_guard/server.h
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/retry_guard")
install(DIRECTORY retry_guard/policy retry_guard/testing
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/retry_guard"
  FILES_MATCHING PATTERN "*.h")

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/retry_guard")
install(EXPORT retry_guardTargets NAMESPACE retry_guard::
  DESTINATION "${package_dir}")
configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/retry_guardConfig.cmake.in" retry_guardConfig.cmake
  INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file(retry_guardConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${CMAKE_CURRENT_BINARY_DIR}/retry_guardConfig.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/retry_guardConfigVersion.cmake"
  DESTINATION "${package_dir}")

# retry_guard_install_pc(<library> "<description>" "<what its headers need>"
#   "<what its code needs as well>")
#
# An archive does not say what it needs: there all of it is required.
function(retry_guard_install_pc library PC_DESCRIPTION PC_REQUIRES PC_REQUIRES_PRIVATE)
  if(NOT BUILD_SHARED_LIBS)
    string(APPEND PC_REQUIRES " ${PC_REQUIRES_PRIVATE}")
    set(PC_REQUIRES_PRIVATE)
  endif()
  set(PC_NAME retry_guard_${library})
  file(RELATIVE_PATH PC_TO_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
  string(REGEX REPLACE "/$" "" PC_TO_PREFIX "${PC_TO_PREFIX}")
  configure_file("${CMAKE_CURRENT_LIST_DIR}/retry_guard.pc.in"
    ${PC_NAME}.pc @ONLY)
  install(FILES "${CMAKE_CURRENT_BINARY_DIR}/${PC_NAME}.pc"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endfunction()

retry_guard_install_pc(policy "The rules of safe retries, without gRPC"
  "absl_any_invocable absl_status absl_statusor absl_time"
  "absl_flat_hash_map absl_random_random absl_span absl_strings protobuf")
retry_guard_install_pc(interceptor "${PROJECT_DESCRIPTION}"
  "retry_guard_policy grpc++"
  "absl_hash absl_strings absl_synchronization protobuf")
retry_guard_install_pc(testing "Fakes and matchers for tests of retries"
  "retry_guard_policy" "")
