/* The interface of Zircon's clocks, on Linux. Part of uncopy-zx.
 * Licensed under MIT or Apache-2.0.
 *
 * Clock objects are not supported: zx_clock_create returns ZX_ERR_NOT_SUPPORTED. */
#ifndef UNCOPY_ZIRCON_SYSCALLS_CLOCK_H_
#define UNCOPY_ZIRCON_SYSCALLS_CLOCK_H_

#include <zircon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the struct that is passed: the upper six bits of options. */
#define ZX_CLOCK_ARGS_VERSION_SHIFT ((uint64_t)58u)
#define ZX_CLOCK_ARGS_VERSION_BITS ((uint64_t)6u)
#define ZX_CLOCK_ARGS_VERSION_MASK ((uint64_t)0xfc00000000000000u)
#define ZX_CLOCK_ARGS_VERSION(version) ((uint64_t)(version) << ZX_CLOCK_ARGS_VERSION_SHIFT)

/* zx_clock_create. */
#define ZX_CLOCK_OPT_MONOTONIC ((uint64_t)1u)
#define ZX_CLOCK_OPT_CONTINUOUS ((uint64_t)2u)
#define ZX_CLOCK_OPT_AUTO_START ((uint64_t)4u)
#define ZX_CLOCK_OPT_BOOT ((uint64_t)8u)
#define ZX_CLOCK_OPTS_ALL ((uint64_t)15u)

/* zx_clock_update: valid fields. */
#define ZX_CLOCK_UPDATE_OPTION_VALUE_VALID ((uint64_t)1u)
#define ZX_CLOCK_UPDATE_OPTION_SYNTHETIC_VALUE_VALID ZX_CLOCK_UPDATE_OPTION_VALUE_VALID
#define ZX_CLOCK_UPDATE_OPTION_RATE_ADJUST_VALID ((uint64_t)2u)
#define ZX_CLOCK_UPDATE_OPTION_ERROR_BOUND_VALID ((uint64_t)4u)
#define ZX_CLOCK_UPDATE_OPTION_REFERENCE_VALUE_VALID ((uint64_t)8u)
#define ZX_CLOCK_UPDATE_OPTION_BOTH_VALUES_VALID ((uint64_t)9u)
#define ZX_CLOCK_UPDATE_OPTIONS_ALL ((uint64_t)15u)

/* Parts per million. */
#define ZX_CLOCK_UPDATE_MIN_RATE_ADJUST ((int32_t)-1000)
#define ZX_CLOCK_UPDATE_MAX_RATE_ADJUST ((int32_t)1000)
#define ZX_CLOCK_UNKNOWN_ERROR ((uint64_t)0xffffffffffffffffu)

typedef struct zx_clock_create_args_v1 {
  zx_time_t backstop_time;
} zx_clock_create_args_v1_t;

typedef struct zx_clock_rate {
  uint32_t synthetic_ticks;
  uint32_t reference_ticks;
} zx_clock_rate_t;

typedef struct zx_clock_transformation {
  int64_t reference_offset;
  int64_t synthetic_offset;
  zx_clock_rate_t rate;
} zx_clock_transformation_t;

typedef struct zx_clock_details_v1 {
  uint64_t options;
  zx_time_t backstop_time;
  zx_clock_transformation_t reference_ticks_to_synthetic;
  zx_clock_transformation_t reference_to_synthetic;
  uint64_t error_bound;
  zx_ticks_t query_ticks;
  zx_ticks_t last_value_update_ticks;
  zx_ticks_t last_rate_adjust_update_ticks;
  zx_ticks_t last_error_bounds_update_ticks;
  uint32_t generation_counter;
  uint8_t padding1[4];
} zx_clock_details_v1_t;

typedef struct zx_clock_update_args_v1 {
  int32_t rate_adjust;
  uint8_t padding1[4];
  int64_t value;
  uint64_t error_bound;
} zx_clock_update_args_v1_t;

typedef struct zx_clock_update_args_v2 {
  int32_t rate_adjust;
  uint8_t padding1[4];
  int64_t synthetic_value;
  int64_t reference_value;
  uint64_t error_bound;
} zx_clock_update_args_v2_t;

UNCOPY_ZX_ASSERT(sizeof(zx_clock_create_args_v1_t) == 8);
UNCOPY_ZX_ASSERT(sizeof(zx_clock_transformation_t) == 24);
UNCOPY_ZX_ASSERT(sizeof(zx_clock_details_v1_t) == 112);
UNCOPY_ZX_AT(zx_clock_details_v1_t, reference_to_synthetic, 40);
UNCOPY_ZX_AT(zx_clock_details_v1_t, generation_counter, 104);
UNCOPY_ZX_ASSERT(sizeof(zx_clock_update_args_v1_t) == 24);
UNCOPY_ZX_AT(zx_clock_update_args_v1_t, error_bound, 16);
UNCOPY_ZX_ASSERT(sizeof(zx_clock_update_args_v2_t) == 32);
UNCOPY_ZX_AT(zx_clock_update_args_v2_t, reference_value, 16);

#ifdef __cplusplus
}
#endif

#endif
