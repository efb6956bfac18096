/* Memory that is mapped, and memory that is sealed. */
#include <string.h>
#include <uncopy/zx.h>
#include <zircon/process.h>
#include <zircon/syscalls.h>

#include "check.h"

#define READ ZX_VM_PERM_READ
#define READ_WRITE (ZX_VM_PERM_READ | ZX_VM_PERM_WRITE)
#define SIZE 8192u

static void memory_is_mapped_and_written(void) {
  zx_handle_t root = zx_vmar_root_self(), vmo;
  zx_vaddr_t first, second;
  char back[6];
  CHECK(root != ZX_HANDLE_INVALID);
  OK(zx_vmo_create(SIZE, 0, &vmo));
  OK(zx_vmar_map(root, READ_WRITE, 0, vmo, 0, SIZE, &first));
  OK(zx_vmar_map(root, READ | ZX_VM_MAP_RANGE, 0, vmo, 4096, 1, &second));
  memcpy((char*)first + 4096, "hello", 6);
  CHECK(memcmp((char*)second, "hello", 6) == 0);
  OK(zx_vmo_read(vmo, back, 4096, 6));
  CHECK(memcmp(back, "hello", 6) == 0);
  OK(zx_vmo_write(vmo, "there", 4096, 6));
  CHECK(memcmp((char*)second, "there", 6) == 0);
  /* A mapping keeps the memory. */
  OK(zx_handle_close(vmo));
  CHECK(((char*)first)[4096] == 't');
  OK(zx_vmar_unmap(root, first, 4096));
  OK(zx_vmar_unmap(root, second, 4096));
  CHECK(((char*)first)[4096] == 't');
  OK(zx_vmar_unmap(root, first, SIZE));
  EQ(zx_vmar_unmap(root, first, SIZE), ZX_ERR_NOT_FOUND);
}

static void only_what_was_mapped_is_unmapped(void) {
  zx_handle_t root = zx_vmar_root_self();
  static char own[3 * 4096];
  zx_vaddr_t page = ((zx_vaddr_t)own + 4095) & ~(zx_vaddr_t)4095;
  EQ(zx_vmar_unmap(root, page, 4096), ZX_ERR_NOT_FOUND);
  EQ(zx_vmar_unmap(root, page + 1, 4096), ZX_ERR_INVALID_ARGS);
  EQ(zx_vmar_unmap(root, page, 0), ZX_ERR_INVALID_ARGS);
  EQ(zx_vmar_unmap(root, page, SIZE_MAX), ZX_ERR_INVALID_ARGS);
  EQ(zx_vmar_unmap(ZX_HANDLE_INVALID, page, 4096), ZX_ERR_BAD_HANDLE);
  own[4096] = 1;
}

static void mappings_are_checked(void) {
  zx_handle_t root = zx_vmar_root_self(), vmo, weak, resizable;
  zx_vaddr_t at;
  OK(zx_vmo_create(SIZE, 0, &vmo));
  OK(zx_vmo_create(SIZE, ZX_VMO_RESIZABLE, &resizable));
  EQ(zx_vmar_map(vmo, READ, 0, vmo, 0, SIZE, &at), ZX_ERR_WRONG_TYPE);
  EQ(zx_vmar_map(8, READ, 0, vmo, 0, SIZE, &at), ZX_ERR_BAD_HANDLE);
  EQ(zx_vmar_map(root, READ, 0, root, 0, SIZE, &at), ZX_ERR_BAD_HANDLE);
  EQ(zx_vmar_map(root, ZX_VM_PERM_WRITE, 0, vmo, 0, SIZE, &at), ZX_ERR_INVALID_ARGS);
  EQ(zx_vmar_map(root, READ | ZX_VM_PERM_EXECUTE, 0, vmo, 0, SIZE, &at), ZX_ERR_ACCESS_DENIED);
  EQ(zx_vmar_map(root, READ | ZX_VM_SPECIFIC, 0, vmo, 0, SIZE, &at), ZX_ERR_NOT_SUPPORTED);
  EQ(zx_vmar_map(root, READ | ZX_VM_CAN_MAP_READ, 0, vmo, 0, SIZE, &at), ZX_ERR_INVALID_ARGS);
  EQ(zx_vmar_map(root, READ, 4096, vmo, 0, SIZE, &at), ZX_ERR_INVALID_ARGS);
  EQ(zx_vmar_map(root, READ, 0, vmo, 1, SIZE, &at), ZX_ERR_INVALID_ARGS);
  EQ(zx_vmar_map(root, READ, 0, vmo, 0, 0, &at), ZX_ERR_INVALID_ARGS);
  EQ(zx_vmar_map(root, READ, 0, vmo, 0, SIZE, (zx_vaddr_t*)1), ZX_ERR_INVALID_ARGS);
  EQ(zx_vmar_map(root, READ, 0, vmo, 0, SIZE_MAX, &at), ZX_ERR_OUT_OF_RANGE);
  EQ(zx_vmar_map(root, READ, 0, vmo, 4096, SIZE, &at), ZX_ERR_BUFFER_TOO_SMALL);
  EQ(zx_vmar_map(root, READ, 0, resizable, 0, SIZE, &at), ZX_ERR_NOT_SUPPORTED);
  EQ(zx_vmar_map(root, READ | ZX_VM_ALLOW_FAULTS | ZX_VM_REQUIRE_NON_RESIZABLE, 0, resizable, 0,
                 SIZE, &at),
     ZX_ERR_NOT_SUPPORTED);
  OK(zx_vmar_map(root, READ | ZX_VM_ALLOW_FAULTS, 0, resizable, 0, 2 * SIZE, &at));
  CHECK(*(volatile char*)at == 0);
  OK(zx_vmar_unmap(root, at, 2 * SIZE));
  EQ(zx_vmar_map(root, READ | ZX_VM_ALLOW_FAULTS, 0, vmo, INT64_MAX - 4095, SIZE, &at),
     ZX_ERR_OUT_OF_RANGE);
  EQ(zx_vmar_map(root, READ | ZX_VM_ALLOW_FAULTS, 0, vmo, UINT64_MAX - 4095, SIZE, &at),
     ZX_ERR_OUT_OF_RANGE);
  OK(uncopy_zx_vmo_seal(resizable));
  OK(zx_vmar_map(root, READ, 0, resizable, 0, SIZE, &at));
  OK(zx_vmar_unmap(root, at, SIZE));
  OK(zx_handle_duplicate(vmo, ZX_RIGHT_READ | ZX_RIGHT_MAP, &weak));
  EQ(zx_vmar_map(root, READ_WRITE, 0, weak, 0, SIZE, &at), ZX_ERR_ACCESS_DENIED);
  OK(zx_vmar_map(root, READ, 0, weak, 0, SIZE, &at));
  OK(zx_vmar_unmap(root, at, SIZE));
  EQ(uncopy_zx_vmo_seal(weak), ZX_ERR_ACCESS_DENIED);
  OK(zx_handle_replace(weak, ZX_RIGHT_READ, &weak));
  EQ(zx_vmar_map(root, READ, 0, weak, 0, SIZE, &at), ZX_ERR_ACCESS_DENIED);
  OK(zx_handle_close(weak));
  OK(zx_handle_close(vmo));
  OK(zx_handle_close(resizable));
}

static void sealed_memory_is_read_only(void) {
  zx_handle_t root = zx_vmar_root_self(), vmo;
  zx_vaddr_t writable, at;
  char back[5];
  OK(zx_vmo_create(SIZE, 0, &vmo));
  OK(zx_vmar_map(root, READ_WRITE, 0, vmo, 0, SIZE, &writable));
  memcpy((char*)writable, "still", 5);
  EQ(uncopy_zx_vmo_seal(vmo), ZX_ERR_BAD_STATE);
  OK(zx_vmar_unmap(root, writable, SIZE));
  OK(uncopy_zx_vmo_seal(vmo));
  OK(uncopy_zx_vmo_seal(vmo));
  EQ(zx_vmo_write(vmo, "x", 0, 1), ZX_ERR_ACCESS_DENIED);
  EQ(zx_vmar_map(root, READ_WRITE, 0, vmo, 0, SIZE, &at), ZX_ERR_ACCESS_DENIED);
  OK(zx_vmar_map(root, READ, 0, vmo, 0, SIZE, &at));
  OK(zx_vmo_read(vmo, back, 0, 5));
  CHECK(memcmp((char*)at, "still", 5) == 0 && memcmp(back, "still", 5) == 0);
  OK(zx_vmar_unmap(root, at, SIZE));
  OK(zx_handle_close(vmo));
  EQ(uncopy_zx_vmo_seal(vmo), ZX_ERR_BAD_HANDLE);
}

/* The handle of the address space is good for mappings alone. */
static void the_root_is_no_other_object(void) {
  zx_handle_t root = zx_vmar_root_self(), out;
  EQ(zx_handle_close(root), ZX_ERR_BAD_HANDLE);
  EQ(zx_handle_duplicate(root, ZX_RIGHT_SAME_RIGHTS, &out), ZX_ERR_BAD_HANDLE);
  EQ(zx_vmar_root_self(), root);
}

int main(void) {
  RUN(memory_is_mapped_and_written);
  RUN(only_what_was_mapped_is_unmapped);
  RUN(mappings_are_checked);
  RUN(sealed_memory_is_read_only);
  RUN(the_root_is_no_other_object);
  return failures != 0;
}
