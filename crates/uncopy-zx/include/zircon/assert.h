/* The interface of Zircon's assertions, on Linux. Part of uncopy-zx.
 * Licensed under MIT or Apache-2.0. */
#ifndef UNCOPY_ZIRCON_ASSERT_H_
#define UNCOPY_ZIRCON_ASSERT_H_

#include <stdio.h>
#include <stdlib.h>
#include <zircon/compiler.h>

/* Prints a message, as printf does, and aborts. */
#define ZX_PANIC(...)             \
  do {                            \
    fprintf(stderr, __VA_ARGS__); \
    fputc('\n', stderr);          \
    abort();                      \
  } while (0)

/* Ends the program unless x is true. */
#define ZX_ASSERT(x)                                                    \
  do {                                                                  \
    if (unlikely(!(x))) {                                               \
      ZX_PANIC("ASSERT FAILED at (%s:%d): %s", __FILE__, __LINE__, #x); \
    }                                                                   \
  } while (0)

/* The same, with a message: a format of printf and its arguments. */
#define ZX_ASSERT_MSG(x, ...)                                                    \
  do {                                                                           \
    if (unlikely(!(x))) {                                                        \
      fprintf(stderr, "ASSERT FAILED at (%s:%d): %s\n", __FILE__, __LINE__, #x); \
      ZX_PANIC(__VA_ARGS__);                                                     \
    }                                                                            \
  } while (0)

/* The same in builds without NDEBUG, or with ZX_DEBUGLEVEL above 1; x is always compiled. */
#if defined(ZX_DEBUGLEVEL)
#define ZX_DEBUG_ASSERT_IMPLEMENTED (ZX_DEBUGLEVEL > 1)
#elif defined(NDEBUG)
#define ZX_DEBUG_ASSERT_IMPLEMENTED 0
#else
#define ZX_DEBUG_ASSERT_IMPLEMENTED 1
#endif
#define ZX_DEBUG_ASSERT(x)             \
  do {                                 \
    if (ZX_DEBUG_ASSERT_IMPLEMENTED) { \
      ZX_ASSERT(x);                    \
    }                                  \
  } while (0)
#define ZX_DEBUG_ASSERT_MSG(x, ...)    \
  do {                                 \
    if (ZX_DEBUG_ASSERT_IMPLEMENTED) { \
      ZX_ASSERT_MSG(x, __VA_ARGS__);   \
    }                                  \
  } while (0)

/* The same, but x is only compiled in those builds. */
#if ZX_DEBUG_ASSERT_IMPLEMENTED
#define ZX_DEBUG_ASSERT_COND(x) ZX_ASSERT(x)
#define ZX_DEBUG_ASSERT_MSG_COND(x, ...) ZX_ASSERT_MSG(x, __VA_ARGS__)
#else
#define ZX_DEBUG_ASSERT_COND(x) \
  do {                          \
  } while (0)
#define ZX_DEBUG_ASSERT_MSG_COND(x, ...) \
  do {                                   \
  } while (0)
#endif

#endif
