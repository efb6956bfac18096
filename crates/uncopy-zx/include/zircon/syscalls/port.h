/* The interface of Zircon's packets, on Linux. Part of uncopy-zx.
 * Licensed under MIT or Apache-2.0. */
#ifndef UNCOPY_ZIRCON_SYSCALLS_PORT_H_
#define UNCOPY_ZIRCON_SYSCALLS_PORT_H_

#include <zircon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZX_PORT_BIND_TO_INTERRUPT ((uint32_t)1u)

/* Types of packets: user packets and signals. */
#define ZX_PKT_TYPE_USER ((uint8_t)0x00u)
#define ZX_PKT_TYPE_SIGNAL_ONE ((uint8_t)0x01u)
#define ZX_PKT_TYPE_MASK ((uint32_t)0x000000ffu)
#define ZX_PKT_IS_USER(type) ((type) == ZX_PKT_TYPE_USER)
#define ZX_PKT_IS_SIGNAL_ONE(type) ((type) == ZX_PKT_TYPE_SIGNAL_ONE)

typedef union zx_packet_user {
  uint64_t u64[4];
  uint32_t u32[8];
  uint16_t u16[16];
  uint8_t c8[32];
} zx_packet_user_t;

typedef struct zx_packet_signal {
  /* Signals that were waited for. */
  zx_signals_t trigger;
  /* Signals that were set when the packet was made. */
  zx_signals_t observed;
  /* Always 1. */
  uint64_t count;
  /* Time, if a timestamp was requested; otherwise 0. */
  zx_time_t timestamp;
  uint64_t reserved1;
} zx_packet_signal_t;

typedef struct zx_port_packet {
  uint64_t key;
  uint32_t type;
  zx_status_t status;
  /* Anonymous, which C99 does not have. */
  __extension__ union {
    zx_packet_user_t user;
    zx_packet_signal_t signal;
  };
} zx_port_packet_t;

UNCOPY_ZX_ASSERT(sizeof(zx_packet_user_t) == 32);
UNCOPY_ZX_ASSERT(sizeof(zx_packet_signal_t) == 32);
UNCOPY_ZX_AT(zx_packet_signal_t, trigger, 0);
UNCOPY_ZX_AT(zx_packet_signal_t, observed, 4);
UNCOPY_ZX_AT(zx_packet_signal_t, count, 8);
UNCOPY_ZX_AT(zx_packet_signal_t, timestamp, 16);
UNCOPY_ZX_AT(zx_packet_signal_t, reserved1, 24);
UNCOPY_ZX_ASSERT(sizeof(zx_port_packet_t) == 48);
UNCOPY_ZX_AT(zx_port_packet_t, key, 0);
UNCOPY_ZX_AT(zx_port_packet_t, type, 8);
UNCOPY_ZX_AT(zx_port_packet_t, status, 12);
UNCOPY_ZX_AT(zx_port_packet_t, user, 16);
UNCOPY_ZX_AT(zx_port_packet_t, signal, 16);

#ifdef __cplusplus
}
#endif

#endif
