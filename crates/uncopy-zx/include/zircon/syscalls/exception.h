/* The interface of Zircon's exceptions, on Linux. Part of uncopy-zx.
 * Licensed under MIT or Apache-2.0.
 *
 * Exceptions are not supported: their calls return ZX_ERR_NOT_SUPPORTED. */
#ifndef UNCOPY_ZIRCON_SYSCALLS_EXCEPTION_H_
#define UNCOPY_ZIRCON_SYSCALLS_EXCEPTION_H_

#include <zircon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Exceptions of the processor, and with this bit those that Zircon generates. */
typedef uint32_t zx_excp_type_t;
#define ZX_EXCP_SYNTH ((uint32_t)0x8000u)
#define ZX_EXCP_IS_ARCH(type) (((type) & ZX_EXCP_SYNTH) == 0)
#define ZX_EXCP_GENERAL ((uint32_t)0x008u)
#define ZX_EXCP_FATAL_PAGE_FAULT ((uint32_t)0x108u)
#define ZX_EXCP_UNDEFINED_INSTRUCTION ((uint32_t)0x208u)
#define ZX_EXCP_SW_BREAKPOINT ((uint32_t)0x308u)
#define ZX_EXCP_HW_BREAKPOINT ((uint32_t)0x408u)
#define ZX_EXCP_UNALIGNED_ACCESS ((uint32_t)0x508u)
#define ZX_EXCP_THREAD_STARTING ((uint32_t)0x8008u)
#define ZX_EXCP_THREAD_EXITING ((uint32_t)0x8108u)
#define ZX_EXCP_POLICY_ERROR ((uint32_t)0x8208u)
#define ZX_EXCP_PROCESS_STARTING ((uint32_t)0x8308u)
#define ZX_EXCP_USER ((uint32_t)0x8309u)
#define ZX_EXCP_USER_CODE_PROCESS_NAME_CHANGED ((uint32_t)0x0001u)
#define ZX_EXCP_USER_CODE_USER0 ((uint32_t)0xf000u)
#define ZX_EXCP_USER_CODE_USER1 ((uint32_t)0xf001u)
#define ZX_EXCP_USER_CODE_USER2 ((uint32_t)0xf002u)

/* zx_task_create_exception_channel, zx_thread_raise_exception. */
#define ZX_EXCEPTION_CHANNEL_DEBUGGER ((uint32_t)1u)
#define ZX_EXCEPTION_TARGET_JOB_DEBUGGER ((uint32_t)1u)

/* Handler of an exception. */
#define ZX_EXCEPTION_CHANNEL_TYPE_NONE ((uint32_t)0u)
#define ZX_EXCEPTION_CHANNEL_TYPE_DEBUGGER ((uint32_t)1u)
#define ZX_EXCEPTION_CHANNEL_TYPE_THREAD ((uint32_t)2u)
#define ZX_EXCEPTION_CHANNEL_TYPE_PROCESS ((uint32_t)3u)
#define ZX_EXCEPTION_CHANNEL_TYPE_JOB ((uint32_t)4u)
#define ZX_EXCEPTION_CHANNEL_TYPE_JOB_DEBUGGER ((uint32_t)5u)

/* Registers of the processor. */
typedef struct zx_x86_64_exc_data {
  uint64_t vector;
  uint64_t err_code;
  uint64_t cr2;
} zx_x86_64_exc_data_t;

typedef struct zx_arm64_exc_data {
  uint32_t esr;
  uint8_t padding1[4];
  uint64_t far;
  uint8_t padding2[8];
} zx_arm64_exc_data_t;

typedef struct zx_riscv64_exc_data {
  uint64_t cause;
  uint64_t tval;
  uint8_t padding1[8];
} zx_riscv64_exc_data_t;

typedef struct zx_exception_context {
  struct {
    union {
      zx_x86_64_exc_data_t x86_64;
      zx_arm64_exc_data_t arm_64;
      zx_riscv64_exc_data_t riscv_64;
    } u;
  } arch;
  uint32_t synth_code;
  uint32_t synth_data;
} zx_exception_context_t;

typedef struct zx_exception_header {
  /* Size of the report, including these four bytes. */
  uint32_t size;
  zx_excp_type_t type;
} zx_exception_header_t;

typedef struct zx_exception_report {
  zx_exception_header_t header;
  zx_exception_context_t context;
} zx_exception_report_t;

/* Message of an exception channel, beside the handle. */
typedef struct zx_exception_info {
  zx_koid_t pid;
  zx_koid_t tid;
  zx_excp_type_t type;
  uint8_t padding1[4];
} zx_exception_info_t;

UNCOPY_ZX_ASSERT(sizeof(zx_x86_64_exc_data_t) == 24);
UNCOPY_ZX_ASSERT(sizeof(zx_arm64_exc_data_t) == 24);
UNCOPY_ZX_ASSERT(sizeof(zx_riscv64_exc_data_t) == 24);
UNCOPY_ZX_ASSERT(sizeof(zx_exception_context_t) == 32);
UNCOPY_ZX_AT(zx_exception_context_t, synth_code, 24);
UNCOPY_ZX_ASSERT(sizeof(zx_exception_report_t) == 40);
UNCOPY_ZX_AT(zx_exception_report_t, context, 8);
UNCOPY_ZX_ASSERT(sizeof(zx_exception_info_t) == 24);

#ifdef __cplusplus
}
#endif

#endif
