include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")

run_stranger_by_pkg_config("${STATIC_PREFIX}" "${WORK}/pkg_config_static")
