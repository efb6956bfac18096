/* The interface of Zircon's scheduler, on Linux. Part of uncopy-zx.
 * Licensed under MIT or Apache-2.0. */
#ifndef UNCOPY_ZIRCON_SYSCALLS_SCHEDULER_H_
#define UNCOPY_ZIRCON_SYSCALLS_SCHEDULER_H_

#include <zircon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Nanoseconds: amount of work, deadline, and period. */
typedef struct zx_sched_deadline_params {
  zx_duration_mono_t capacity;
  zx_duration_mono_t relative_deadline;
  zx_duration_mono_t period;
} zx_sched_deadline_params_t;

UNCOPY_ZX_ASSERT(sizeof(zx_sched_deadline_params_t) == 24);

#ifdef __cplusplus
}
#endif

#endif
