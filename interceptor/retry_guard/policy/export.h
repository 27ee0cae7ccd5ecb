// What the shared libraries show. Everything else in them is hidden, so that
// nobody comes to depend on it, and start-up has little to look up.
//
// Written by hand and the same for every build system. It needs no import side:
// an ELF symbol is declared alike by those who define it and those who use it.

#ifndef RETRY_GUARD_POLICY_EXPORT_H_
#define RETRY_GUARD_POLICY_EXPORT_H_

#if defined(__GNUC__)
#define RETRY_GUARD_EXPORT __attribute__((visibility("default")))
#else
#define RETRY_GUARD_EXPORT
#endif

#endif  // RETRY_GUARD_POLICY_EXPORT_H_
