/* The interface of Zircon's I/O buffers, on Linux. Part of uncopy-zx.
 * Licensed under MIT or Apache-2.0.
 *
 * I/O buffers are not supported: zx_iob_create returns ZX_ERR_NOT_SUPPORTED. */
#ifndef UNCOPY_ZIRCON_SYSCALLS_IOB_H_
#define UNCOPY_ZIRCON_SYSCALLS_IOB_H_

#include <zircon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZX_IOB_MAX_REGIONS 64

/* Access discipline of a region. */
typedef uint64_t zx_iob_discipline_type_t;
#define ZX_IOB_DISCIPLINE_TYPE_NONE ((zx_iob_discipline_type_t)0u)

typedef struct zx_iob_discipline {
  zx_iob_discipline_type_t type;
  __extension__ union {
    uint64_t reserved[8];
  };
} zx_iob_discipline_t;

/* Owner of the memory. */
typedef uint32_t zx_iob_region_type_t;
#define ZX_IOB_REGION_TYPE_PRIVATE ((zx_iob_region_type_t)0u)

/* Access of each end to a region. */
typedef uint32_t zx_iob_access_t;
#define ZX_IOB_ACCESS_EP0_CAN_MAP_READ ((zx_iob_access_t)1u << 0)
#define ZX_IOB_ACCESS_EP0_CAN_MAP_WRITE ((zx_iob_access_t)1u << 1)
#define ZX_IOB_ACCESS_EP0_CAN_MEDIATED_READ ((zx_iob_access_t)1u << 2)
#define ZX_IOB_ACCESS_EP0_CAN_MEDIATED_WRITE ((zx_iob_access_t)1u << 3)
#define ZX_IOB_ACCESS_EP1_CAN_MAP_READ ((zx_iob_access_t)1u << 4)
#define ZX_IOB_ACCESS_EP1_CAN_MAP_WRITE ((zx_iob_access_t)1u << 5)
#define ZX_IOB_ACCESS_EP1_CAN_MEDIATED_READ ((zx_iob_access_t)1u << 6)
#define ZX_IOB_ACCESS_EP1_CAN_MEDIATED_WRITE ((zx_iob_access_t)1u << 7)

typedef struct zx_iob_region_private {
  uint32_t options;
  uint32_t padding1;
  uint64_t padding2[3];
} zx_iob_region_private_t;

typedef struct zx_iob_region {
  zx_iob_region_type_t type;
  zx_iob_access_t access;
  uint64_t size;
  zx_iob_discipline_t discipline;
  __extension__ union {
    zx_iob_region_private_t private_region;
    uint8_t max_extension[32];
  };
} zx_iob_region_t;

typedef uint64_t zx_iob_write_options_t;

UNCOPY_ZX_ASSERT(sizeof(zx_iob_discipline_t) == 72);
UNCOPY_ZX_ASSERT(sizeof(zx_iob_region_private_t) == 32);
UNCOPY_ZX_ASSERT(sizeof(zx_iob_region_t) == 120);
UNCOPY_ZX_AT(zx_iob_region_t, discipline, 16);
UNCOPY_ZX_AT(zx_iob_region_t, private_region, 88);

#ifdef __cplusplus
}
#endif

#endif
