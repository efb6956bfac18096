/* The interface of Zircon's annotations, on Linux. Part of uncopy-zx.
 * Licensed under MIT or Apache-2.0. */
#ifndef UNCOPY_ZIRCON_COMPILER_H_
#define UNCOPY_ZIRCON_COMPILER_H_

#ifdef __cplusplus
#define __BEGIN_CDECLS extern "C" {
#define __END_CDECLS }
#else
#define __BEGIN_CDECLS
#define __END_CDECLS
#endif

#ifndef __EXPORT
#define __EXPORT __attribute__((__visibility__("default")))
#endif

/* A result that must be looked at. */
#ifndef __WARN_UNUSED_RESULT
#define __WARN_UNUSED_RESULT __attribute__((__warn_unused_result__))
#endif

/* A function whose result depends on its arguments alone. */
#ifndef __CONST
#define __CONST __attribute__((__const__))
#endif

#ifndef __LEAF_FN
#ifdef __clang__
#define __LEAF_FN
#else
#define __LEAF_FN __attribute__((__leaf__))
#endif
#endif

#ifndef __NO_RETURN
#define __NO_RETURN __attribute__((__noreturn__))
#endif
#ifndef __UNUSED
#define __UNUSED __attribute__((__unused__))
#endif
#ifndef __PACKED
#define __PACKED __attribute__((__packed__))
#endif
#ifndef __ALIGNED
#define __ALIGNED(x) __attribute__((__aligned__(x)))
#endif
#ifndef likely
#define likely(x) __builtin_expect(!!(x), 1)
#endif
#ifndef unlikely
#define unlikely(x) __builtin_expect(!!(x), 0)
#endif

#endif
