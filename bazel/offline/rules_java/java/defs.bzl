"""What Bazel 4 loads from rules_java, for tools that nothing here uses."""

java_library = native.java_library
java_import = native.java_import
java_runtime = native.java_runtime
java_toolchain = native.java_toolchain
