/* The interface of Zircon's arithmetic on times, on Linux. Part of uncopy-zx.
 * Licensed under MIT or Apache-2.0. */
#ifndef UNCOPY_ZIRCON_TIME_H_
#define UNCOPY_ZIRCON_TIME_H_

#include <zircon/types.h>

#define ZX_NSEC(n) ((zx_duration_t)(1LL * (n)))
#define ZX_USEC(n) ((zx_duration_t)(1000LL * (n)))
#define ZX_MSEC(n) ((zx_duration_t)(1000000LL * (n)))
#define ZX_SEC(n) ((zx_duration_t)(1000000000LL * (n)))
#define ZX_MIN(n) (ZX_SEC(n) * 60LL)
#define ZX_HOUR(n) (ZX_MIN(n) * 60LL)

/* Sums and differences end at the ends of time. */
static inline zx_time_t zx_time_add_duration(zx_time_t time, zx_duration_t duration) {
  zx_time_t sum;
  if (__builtin_add_overflow(time, duration, &sum)) {
    return duration >= 0 ? ZX_TIME_INFINITE : ZX_TIME_INFINITE_PAST;
  }
  return sum;
}

static inline zx_time_t zx_time_sub_duration(zx_time_t time, zx_duration_t duration) {
  zx_time_t difference;
  if (__builtin_sub_overflow(time, duration, &difference)) {
    return duration >= 0 ? ZX_TIME_INFINITE_PAST : ZX_TIME_INFINITE;
  }
  return difference;
}

static inline zx_duration_t zx_time_sub_time(zx_time_t time1, zx_time_t time2) {
  return zx_time_sub_duration(time1, time2);
}

#endif
