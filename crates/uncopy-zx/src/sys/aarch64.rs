//! Copying on 64-bit ARM, by code that continues at a landing address after a fault.
//!
//! The code does not use the stack, so that a faulting thread can continue at the landing address as
//! after a jump.

use std::arch::global_asm;

use libc::ucontext_t;

use super::fault::Copy;

/// Whether signal handlers can recover from bad pointers on this processor.
pub(super) const IS_SUPPORTED: bool = true;

global_asm!(
    r#"
    .pushsection .text.uncopy_zx_copy, "ax", @progbits
    .balign 64
    .hidden uncopy_zx_copy_begin
    .globl uncopy_zx_copy_begin
uncopy_zx_copy_begin:
    .hidden uncopy_zx_copy
    .globl uncopy_zx_copy
    .type uncopy_zx_copy, %function
uncopy_zx_copy:
    .cfi_startproc
    hint #34
    add x3, x1, x2
    add x4, x0, x2
    cmp x2, #16
    b.lo 20f
    cmp x2, #32
    b.hi 30f
    ldr q0, [x1]
    ldr q1, [x3, #-16]
    str q0, [x0]
    str q1, [x4, #-16]
    mov w0, #0
    ret
30:
    cmp x2, #64
    b.hi 40f
    ldp q0, q1, [x1]
    ldp q2, q3, [x3, #-32]
    stp q0, q1, [x0]
    stp q2, q3, [x4, #-32]
    mov w0, #0
    ret
40:
    ldp q4, q5, [x3, #-64]
    ldp q6, q7, [x3, #-32]
    sub x5, x4, #64
50:
    ldp q0, q1, [x1]
    ldp q2, q3, [x1, #32]
    add x1, x1, #64
    stp q0, q1, [x0]
    stp q2, q3, [x0, #32]
    add x0, x0, #64
    cmp x0, x5
    b.lo 50b
    stp q4, q5, [x4, #-64]
    stp q6, q7, [x4, #-32]
    mov w0, #0
    ret
20:
    cmp x2, #8
    b.lo 21f
    ldr x5, [x1]
    ldr x6, [x3, #-8]
    str x5, [x0]
    str x6, [x4, #-8]
    mov w0, #0
    ret
21:
    cmp x2, #4
    b.lo 22f
    ldr w5, [x1]
    ldr w6, [x3, #-4]
    str w5, [x0]
    str w6, [x4, #-4]
    mov w0, #0
    ret
22:
    cbz x2, 24f
    ldrb w5, [x1]
    strb w5, [x0]
    cmp x2, #1
    b.eq 24f
    ldrb w5, [x1, #1]
    ldrb w6, [x3, #-1]
    strb w5, [x0, #1]
    strb w6, [x4, #-1]
24:
    mov w0, #0
    ret
    .cfi_endproc
    .size uncopy_zx_copy, . - uncopy_zx_copy
    .hidden uncopy_zx_copy_end
    .globl uncopy_zx_copy_end
uncopy_zx_copy_end:
    .hidden uncopy_zx_copy_landing
    .globl uncopy_zx_copy_landing
uncopy_zx_copy_landing:
    mov w0, #1
    ret
    .popsection
"#
);

// SAFETY: the symbols are those of the assembly above, with these signatures: C's calling
// convention, registers that a callee may change, no stack.
unsafe extern "C" {
    static uncopy_zx_copy_begin: u8;
    static uncopy_zx_copy_end: u8;
    static uncopy_zx_copy_landing: u8;
    fn uncopy_zx_copy(to: *mut u8, from: *const u8, length: usize) -> u32;
}

/// Returns the copy function of this processor.
pub(super) fn best() -> Copy {
    uncopy_zx_copy
}

/// Returns all copy functions.
#[cfg(test)]
pub(super) fn all() -> Vec<Copy> {
    vec![best()]
}

/// Lets the interrupted thread continue at the landing address if it faulted in the copying code;
/// returns whether it did.
pub(super) fn land(context: &mut ucontext_t) -> bool {
    let begin = (&raw const uncopy_zx_copy_begin).addr();
    let end = (&raw const uncopy_zx_copy_end).addr();
    let counter = &mut context.uc_mcontext.pc;
    let is_ours = (begin..end).contains(&(*counter as usize));
    if is_ours {
        *counter = (&raw const uncopy_zx_copy_landing).addr() as u64;
    }
    is_ours
}
