/* The interface of Zircon's arithmetic on times, on Linux. Part of uncopy-zx.
 * Licensed under MIT or Apache-2.0. */
#ifndef UNCOPY_ZIRCON_TIME_H_
#define UNCOPY_ZIRCON_TIME_H_

#include <time.h>
#include <zircon/compiler.h>
#include <zircon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Results are saturated at the ends of the range; C++ may evaluate them at compile time. */

__CONSTEXPR static inline zx_time_t zx_time_add_duration(zx_time_t time, zx_duration_t duration) {
  zx_time_t sum = 0;
  if (__builtin_add_overflow(time, duration, &sum)) {
    return duration >= 0 ? ZX_TIME_INFINITE : ZX_TIME_INFINITE_PAST;
  }
  return sum;
}

__CONSTEXPR static inline zx_time_t zx_time_sub_duration(zx_time_t time, zx_duration_t duration) {
  zx_time_t difference = 0;
  if (__builtin_sub_overflow(time, duration, &difference)) {
    return duration >= 0 ? ZX_TIME_INFINITE_PAST : ZX_TIME_INFINITE;
  }
  return difference;
}

__CONSTEXPR static inline zx_duration_t zx_time_sub_time(zx_time_t time1, zx_time_t time2) {
  return zx_time_sub_duration(time1, time2);
}

__CONSTEXPR static inline zx_duration_t zx_duration_add_duration(zx_duration_t duration1,
                                                                 zx_duration_t duration2) {
  return zx_time_add_duration(duration1, duration2);
}

__CONSTEXPR static inline zx_duration_t zx_duration_sub_duration(zx_duration_t duration1,
                                                                 zx_duration_t duration2) {
  return zx_time_sub_duration(duration1, duration2);
}

__CONSTEXPR static inline zx_duration_t zx_duration_mul_int64(zx_duration_t duration,
                                                              int64_t multiplier) {
  zx_duration_t product = 0;
  if (__builtin_mul_overflow(duration, multiplier, &product)) {
    return (duration < 0) == (multiplier < 0) ? ZX_TIME_INFINITE : ZX_TIME_INFINITE_PAST;
  }
  return product;
}

/* Ticks are nanoseconds here. */
__CONSTEXPR static inline zx_ticks_t zx_ticks_add_ticks(zx_ticks_t ticks1, zx_ticks_t ticks2) {
  return zx_time_add_duration(ticks1, ticks2);
}

__CONSTEXPR static inline zx_ticks_t zx_ticks_sub_ticks(zx_ticks_t ticks1, zx_ticks_t ticks2) {
  return zx_time_sub_duration(ticks1, ticks2);
}

__CONSTEXPR static inline zx_ticks_t zx_ticks_mul_int64(zx_ticks_t ticks, int64_t multiplier) {
  return zx_duration_mul_int64(ticks, multiplier);
}

__CONSTEXPR static inline int64_t zx_nsec_from_duration(zx_duration_t duration) { return duration; }

__CONSTEXPR static inline zx_duration_t zx_duration_from_nsec(int64_t n) { return n; }

__CONSTEXPR static inline zx_duration_t zx_duration_from_usec(int64_t n) {
  return zx_duration_mul_int64(1000, n);
}

__CONSTEXPR static inline zx_duration_t zx_duration_from_msec(int64_t n) {
  return zx_duration_mul_int64(1000000, n);
}

__CONSTEXPR static inline zx_duration_t zx_duration_from_sec(int64_t n) {
  return zx_duration_mul_int64(1000000000, n);
}

__CONSTEXPR static inline zx_duration_t zx_duration_from_min(int64_t n) {
  return zx_duration_mul_int64(60000000000, n);
}

__CONSTEXPR static inline zx_duration_t zx_duration_from_hour(int64_t n) {
  return zx_duration_mul_int64(3600000000000, n);
}

/* C99 alone has no struct timespec. */
#if defined(__cplusplus) || defined(_POSIX_C_SOURCE) || \
    (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L)
__CONSTEXPR static inline zx_duration_t zx_duration_from_timespec(struct timespec ts) {
  return zx_duration_add_duration(zx_duration_from_sec(ts.tv_sec),
                                  zx_duration_from_nsec(ts.tv_nsec));
}

__CONSTEXPR static inline struct timespec zx_timespec_from_duration(zx_duration_t duration) {
  struct timespec ts = {0, 0};
  ts.tv_sec = (time_t)(duration / 1000000000);
  ts.tv_nsec = (long)(duration % 1000000000);
  return ts;
}

__CONSTEXPR static inline zx_time_t zx_time_from_timespec(struct timespec ts) {
  return zx_duration_from_timespec(ts);
}

__CONSTEXPR static inline struct timespec zx_timespec_from_time(zx_time_t time) {
  return zx_timespec_from_duration(time);
}
#endif

/* Macros, so that constants can be used as array sizes and in C initializers. */
#define ZX_NSEC(n) (__ISCONSTANT(n) ? ((zx_duration_t)(1LL * (n))) : zx_duration_from_nsec(n))
#define ZX_USEC(n) (__ISCONSTANT(n) ? ((zx_duration_t)(1000LL * (n))) : zx_duration_from_usec(n))
#define ZX_MSEC(n) (__ISCONSTANT(n) ? ((zx_duration_t)(1000000LL * (n))) : zx_duration_from_msec(n))
#define ZX_SEC(n) (__ISCONSTANT(n) ? ((zx_duration_t)(1000000000LL * (n))) : zx_duration_from_sec(n))
#define ZX_MIN(n) \
  (__ISCONSTANT(n) ? ((zx_duration_t)(60LL * 1000000000LL * (n))) : zx_duration_from_min(n))
#define ZX_HOUR(n) \
  (__ISCONSTANT(n) ? ((zx_duration_t)(3600LL * 1000000000LL * (n))) : zx_duration_from_hour(n))

#ifdef __cplusplus
}
#endif

#endif
