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

/* Other libraries define some of these names too; an existing definition is kept. */

/* Functions in headers that C++ may evaluate at compile time. */
#ifndef __CONSTEXPR
#ifdef __cplusplus
#define __CONSTEXPR constexpr
#else
#define __CONSTEXPR
#endif
#endif

/* Visibility outside of a library, and weak definitions. */
#ifndef __EXPORT
#define __EXPORT __attribute__((__visibility__("default")))
#endif
#ifndef __LOCAL
#define __LOCAL __attribute__((__visibility__("hidden")))
#endif
#ifndef __WEAK
#define __WEAK __attribute__((__weak__))
#endif
#ifndef __WEAK_ALIAS
#define __WEAK_ALIAS(x) __attribute__((__weak__, __alias__(x)))
#endif
#ifndef __ALIAS
#define __ALIAS(x) __attribute__((__alias__(x)))
#endif
#ifndef __ALWAYS_EMIT
#define __ALWAYS_EMIT __attribute__((__used__))
#endif
#ifndef __SECTION
#define __SECTION(x) __attribute__((__section__(x)))
#endif
#ifndef __THREAD
#define __THREAD __thread
#endif

/* A result that must be used. */
#ifndef __WARN_UNUSED_RESULT
#define __WARN_UNUSED_RESULT __attribute__((__warn_unused_result__))
#endif
#if defined(__cplusplus) && !defined(__WARN_UNUSED_CONSTRUCTOR)
#if __cplusplus >= 201703L
#define __WARN_UNUSED_CONSTRUCTOR [[nodiscard]]
#else
#define __WARN_UNUSED_CONSTRUCTOR
#endif
#endif

/* A function whose result depends only on its arguments, or on memory too. */
#ifndef __CONST
#define __CONST __attribute__((__const__))
#endif
#ifndef __PURE
#define __PURE __attribute__((__pure__))
#endif
#ifndef __MALLOC
#define __MALLOC __attribute__((__malloc__))
#endif

#ifndef __LEAF_FN
#ifdef __clang__
#define __LEAF_FN
#else
#define __LEAF_FN __attribute__((__leaf__))
#endif
#endif

/* Arguments: a format of printf or scanf, and pointers that are never NULL. */
#ifndef __PRINTFLIKE
#define __PRINTFLIKE(fmt, varargs) __attribute__((__format__(__printf__, fmt, varargs)))
#endif
#ifndef __SCANFLIKE
#define __SCANFLIKE(fmt, varargs) __attribute__((__format__(__scanf__, fmt, varargs)))
#endif
#ifndef __NONNULL
#define __NONNULL(x) __attribute__((__nonnull__ x))
#endif

#ifndef __NO_RETURN
#define __NO_RETURN __attribute__((__noreturn__))
#endif
#ifndef __UNREACHABLE
#define __UNREACHABLE __builtin_unreachable()
#endif
#ifndef __ALWAYS_INLINE
#define __ALWAYS_INLINE __attribute__((__always_inline__))
#endif
#ifndef __NO_INLINE
#define __NO_INLINE __attribute__((__noinline__))
#endif
#ifndef __UNUSED
#define __UNUSED __attribute__((__unused__))
#endif
#ifndef __DEPRECATE
#define __DEPRECATE __attribute__((__deprecated__))
#endif
#ifndef __PACKED
#define __PACKED __attribute__((__packed__))
#endif
#ifndef __ALIGNED
#define __ALIGNED(x) __attribute__((__aligned__(x)))
#endif
#ifndef __RESTRICT
#define __RESTRICT __restrict
#endif
#ifndef __ISCONSTANT
#define __ISCONSTANT(x) __builtin_constant_p(x)
#endif
#ifndef __GET_CALLER
#define __GET_CALLER(x) __builtin_return_address(0)
#endif
#ifndef __GET_FRAME
#define __GET_FRAME(x) __builtin_frame_address(0)
#endif
#ifndef __FALLTHROUGH
#if defined(__cplusplus) && __cplusplus >= 201703L
#define __FALLTHROUGH [[fallthrough]]
#else
#define __FALLTHROUGH __attribute__((__fallthrough__))
#endif
#endif
#if defined(__cplusplus) && !defined(__NO_UNIQUE_ADDRESS)
#if __cplusplus >= 202002L
#define __NO_UNIQUE_ADDRESS [[no_unique_address]]
#else
#define __NO_UNIQUE_ADDRESS
#endif
#endif

#ifndef likely
#define likely(x) __builtin_expect(!!(x), 1)
#endif
#ifndef unlikely
#define unlikely(x) __builtin_expect(!!(x), 0)
#endif

/* Number of elements of an array. */
#ifndef countof
#define countof(a) (sizeof(a) / sizeof((a)[0]))
#endif

/* Store the result in *c, truncated if it does not fit, and return whether it was truncated. */
#ifndef add_overflow
#define add_overflow(a, b, c) __builtin_add_overflow(a, b, c)
#endif
#ifndef sub_overflow
#define sub_overflow(a, b, c) __builtin_sub_overflow(a, b, c)
#endif
#ifndef mul_overflow
#define mul_overflow(a, b, c) __builtin_mul_overflow(a, b, c)
#endif

/* Types that own what they point to, and types that do not: for clang's lifetime analysis. */
#ifndef __OWNER
#ifdef __clang__
#define __OWNER(x) [[gsl::Owner(x)]]
#else
#define __OWNER(x)
#endif
#endif
#ifndef __POINTER
#ifdef __clang__
#define __POINTER(x) [[gsl::Pointer(x)]]
#else
#define __POINTER(x)
#endif
#endif

/* Locks and the data that they guard: for clang's thread safety analysis, if the standard library
 * supports it. */
#ifndef __THREAD_ANNOTATION
#if defined(__clang__) && defined(_LIBCPP_ENABLE_THREAD_SAFETY_ANNOTATIONS)
#define __THREAD_ANNOTATION(x) __attribute__((x))
#else
#define __THREAD_ANNOTATION(x)
#endif
#endif
#ifndef __TA_CAPABILITY
#define __TA_CAPABILITY(x) __THREAD_ANNOTATION(__capability__(x))
#define __TA_SCOPED_CAPABILITY __THREAD_ANNOTATION(__scoped_lockable__)
#define __TA_GUARDED(x) __THREAD_ANNOTATION(__guarded_by__(x))
#define __TA_ACQUIRE(...) __THREAD_ANNOTATION(__acquire_capability__(__VA_ARGS__))
#define __TA_ACQUIRE_SHARED(...) __THREAD_ANNOTATION(__acquire_shared_capability__(__VA_ARGS__))
#define __TA_TRY_ACQUIRE(...) __THREAD_ANNOTATION(__try_acquire_capability__(__VA_ARGS__))
#define __TA_ACQUIRED_BEFORE(...) __THREAD_ANNOTATION(__acquired_before__(__VA_ARGS__))
#define __TA_ACQUIRED_AFTER(...) __THREAD_ANNOTATION(__acquired_after__(__VA_ARGS__))
#define __TA_RELEASE(...) __THREAD_ANNOTATION(__release_capability__(__VA_ARGS__))
#define __TA_RELEASE_SHARED(...) __THREAD_ANNOTATION(__release_shared_capability__(__VA_ARGS__))
#define __TA_REQUIRES(...) __THREAD_ANNOTATION(__requires_capability__(__VA_ARGS__))
#define __TA_REQUIRES_SHARED(...) __THREAD_ANNOTATION(__requires_shared_capability__(__VA_ARGS__))
#define __TA_EXCLUDES(...) __THREAD_ANNOTATION(__locks_excluded__(__VA_ARGS__))
#define __TA_ASSERT(...) __THREAD_ANNOTATION(__assert_capability__(__VA_ARGS__))
#define __TA_ASSERT_SHARED(...) __THREAD_ANNOTATION(__assert_shared_capability__(__VA_ARGS__))
#define __TA_RETURN_CAPABILITY(x) __THREAD_ANNOTATION(__lock_returned__(x))
#define __TA_NO_THREAD_SAFETY_ANALYSIS __THREAD_ANNOTATION(__no_thread_safety_analysis__)
#endif

#endif
