/* The interface of Zircon's profiles, on Linux. Part of uncopy-zx.
 * Licensed under MIT or Apache-2.0.
 *
 * Profiles are not supported: zx_profile_create returns ZX_ERR_NOT_SUPPORTED. */
#ifndef UNCOPY_ZIRCON_SYSCALLS_PROFILE_H_
#define UNCOPY_ZIRCON_SYSCALLS_PROFILE_H_

#include <zircon/syscalls/scheduler.h>
#include <zircon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZX_PRIORITY_LOWEST 0
#define ZX_PRIORITY_LOW 8
#define ZX_PRIORITY_DEFAULT 16
#define ZX_PRIORITY_HIGH 24
#define ZX_PRIORITY_HIGHEST 31

/* Valid fields. */
#define ZX_PROFILE_INFO_FLAG_PRIORITY (1 << 0)
#define ZX_PROFILE_INFO_FLAG_CPU_MASK (1 << 1)
#define ZX_PROFILE_INFO_FLAG_DEADLINE (1 << 2)
#define ZX_PROFILE_INFO_FLAG_NO_INHERIT (1 << 3)
#define ZX_PROFILE_INFO_FLAG_MEMORY_PRIORITY (1 << 4)
#define ZX_PROFILE_INFO_FLAG_CRITICAL (1 << 5)

typedef struct zx_profile_info {
  uint32_t flags;
  uint8_t padding1[4];
  __extension__ union {
    __extension__ struct {
      int32_t priority;
      uint8_t padding2[20];
    };
    zx_sched_deadline_params_t deadline_params;
  };
  zx_cpu_set_t cpu_affinity_mask;
} zx_profile_info_t;

UNCOPY_ZX_ASSERT(sizeof(zx_profile_info_t) == 96);
UNCOPY_ZX_AT(zx_profile_info_t, priority, 8);
UNCOPY_ZX_AT(zx_profile_info_t, deadline_params, 8);
UNCOPY_ZX_AT(zx_profile_info_t, cpu_affinity_mask, 32);

#ifdef __cplusplus
}
#endif

#endif
