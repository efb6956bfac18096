/* The interface of Zircon's assertions, on Linux. Part of uncopy-zx.
 * Licensed under MIT or Apache-2.0. */
#ifndef UNCOPY_ZIRCON_ASSERT_H_
#define UNCOPY_ZIRCON_ASSERT_H_

#include <stdio.h>
#include <stdlib.h>
#include <zircon/compiler.h>

/* Prints a message and aborts. */
#define ZX_PANIC(...)                  \
  do {                                 \
    fprintf(stderr, __VA_ARGS__);      \
    fputc('\n', stderr);               \
    abort();                           \
  } while (0)

/* Ends the program unless x is true. */
#define ZX_ASSERT(x)                                                        \
  do {                                                                      \
    if (unlikely(!(x))) {                                                   \
      ZX_PANIC("ASSERT FAILED at (%s:%d): %s", __FILE__, __LINE__, #x);     \
    }                                                                       \
  } while (0)

/* The same in builds without NDEBUG; x is always compiled. */
#ifdef NDEBUG
#define ZX_DEBUG_ASSERT_IMPLEMENTED 0
#else
#define ZX_DEBUG_ASSERT_IMPLEMENTED 1
#endif
#define ZX_DEBUG_ASSERT(x)              \
  do {                                  \
    if (ZX_DEBUG_ASSERT_IMPLEMENTED) {  \
      ZX_ASSERT(x);                     \
    }                                   \
  } while (0)

#endif
