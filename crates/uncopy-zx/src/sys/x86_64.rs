//! Copying on x86-64, by code whose every fault has a place to land.
//!
//! It touches no stack, so that whoever faults in it can be sent to the landing place as if that
//! had been jumped to.

use std::arch::global_asm;

use libc::ucontext_t;

/// Signal handlers can make bad pointers harmless here.
pub(super) const IS_SUPPORTED: bool = true;

global_asm!(
    r#"
    .pushsection .text.uncopy_zx_copy, "ax", @progbits
    .balign 64
    .hidden uncopy_zx_copy_begin
    .globl uncopy_zx_copy_begin
uncopy_zx_copy_begin:

    .hidden uncopy_zx_copy_short
    .globl uncopy_zx_copy_short
    .type uncopy_zx_copy_short, @function
uncopy_zx_copy_short:
    .cfi_startproc
    cmp rdx, 16
    jb 20f
    cmp rdx, 32
    ja 30f
    movups xmm0, [rsi]
    movups xmm1, [rsi + rdx - 16]
    movups [rdi], xmm0
    movups [rdi + rdx - 16], xmm1
    xor eax, eax
    ret
30:
    cmp rdx, 64
    ja 40f
    movups xmm0, [rsi]
    movups xmm1, [rsi + 16]
    movups xmm2, [rsi + rdx - 32]
    movups xmm3, [rsi + rdx - 16]
    movups [rdi], xmm0
    movups [rdi + 16], xmm1
    movups [rdi + rdx - 32], xmm2
    movups [rdi + rdx - 16], xmm3
    xor eax, eax
    ret
40:
    movups xmm0, [rsi]
    movups xmm1, [rsi + 16]
    movups xmm2, [rsi + 32]
    movups xmm3, [rsi + 48]
    movups xmm4, [rsi + rdx - 64]
    movups xmm5, [rsi + rdx - 48]
    movups xmm6, [rsi + rdx - 32]
    movups xmm7, [rsi + rdx - 16]
    movups [rdi], xmm0
    movups [rdi + 16], xmm1
    movups [rdi + 32], xmm2
    movups [rdi + 48], xmm3
    movups [rdi + rdx - 64], xmm4
    movups [rdi + rdx - 48], xmm5
    movups [rdi + rdx - 32], xmm6
    movups [rdi + rdx - 16], xmm7
    xor eax, eax
    ret
20:
    cmp edx, 8
    jb 21f
    mov rcx, [rsi]
    mov r8, [rsi + rdx - 8]
    mov [rdi], rcx
    mov [rdi + rdx - 8], r8
    xor eax, eax
    ret
21:
    cmp edx, 4
    jb 22f
    mov ecx, [rsi]
    mov r8d, [rsi + rdx - 4]
    mov [rdi], ecx
    mov [rdi + rdx - 4], r8d
    xor eax, eax
    ret
22:
    cmp edx, 1
    jb 24f
    je 23f
    movzx ecx, word ptr [rsi]
    movzx r8d, byte ptr [rsi + rdx - 1]
    mov [rdi], cx
    mov [rdi + rdx - 1], r8b
    xor eax, eax
    ret
23:
    movzx ecx, byte ptr [rsi]
    mov [rdi], cl
24:
    xor eax, eax
    ret
    .cfi_endproc
    .size uncopy_zx_copy_short, . - uncopy_zx_copy_short

    .hidden uncopy_zx_copy_string
    .globl uncopy_zx_copy_string
    .type uncopy_zx_copy_string, @function
uncopy_zx_copy_string:
    .cfi_startproc
    mov rcx, rdx
    rep movsb
    xor eax, eax
    ret
    .cfi_endproc
    .size uncopy_zx_copy_string, . - uncopy_zx_copy_string

    .hidden uncopy_zx_copy_avx_begin
    .globl uncopy_zx_copy_avx_begin
uncopy_zx_copy_avx_begin:
    .balign 64
    .hidden uncopy_zx_copy_avx
    .globl uncopy_zx_copy_avx
    .type uncopy_zx_copy_avx, @function
uncopy_zx_copy_avx:
    .cfi_startproc
    cmp rdx, 256
    ja 45f
    vmovups ymm0, [rsi]
    vmovups ymm1, [rsi + 32]
    vmovups ymm2, [rsi + 64]
    vmovups ymm3, [rsi + 96]
    vmovups ymm4, [rsi + rdx - 128]
    vmovups ymm5, [rsi + rdx - 96]
    vmovups ymm6, [rsi + rdx - 64]
    vmovups ymm7, [rsi + rdx - 32]
    vmovups [rdi], ymm0
    vmovups [rdi + 32], ymm1
    vmovups [rdi + 64], ymm2
    vmovups [rdi + 96], ymm3
    vmovups [rdi + rdx - 128], ymm4
    vmovups [rdi + rdx - 96], ymm5
    vmovups [rdi + rdx - 64], ymm6
    vmovups [rdi + rdx - 32], ymm7
    vzeroupper
    xor eax, eax
    ret
45:
    vmovups ymm4, [rsi]
    vmovups ymm5, [rsi + rdx - 32]
    vmovups ymm6, [rsi + rdx - 64]
    vmovups ymm7, [rsi + rdx - 96]
    vmovups ymm8, [rsi + rdx - 128]
    lea r9, [rdi + rdx]
    lea r10, [rdi + rdx - 128]
    lea r8, [rdi + 32]
    and r8, -32
    vmovups [rdi], ymm4
    sub r8, rdi
    add rsi, r8
    add rdi, r8
    cmp rdi, r10
    jae 60f
    .balign 32
50:
    vmovups ymm0, [rsi]
    vmovups ymm1, [rsi + 32]
    vmovups ymm2, [rsi + 64]
    vmovups ymm3, [rsi + 96]
    sub rsi, -128
    vmovaps [rdi], ymm0
    vmovaps [rdi + 32], ymm1
    vmovaps [rdi + 64], ymm2
    vmovaps [rdi + 96], ymm3
    sub rdi, -128
    cmp rdi, r10
    jb 50b
60:
    vmovups [r9 - 128], ymm8
    vmovups [r9 - 96], ymm7
    vmovups [r9 - 64], ymm6
    vmovups [r9 - 32], ymm5
    vzeroupper
    xor eax, eax
    ret
    .cfi_endproc
    .size uncopy_zx_copy_avx, . - uncopy_zx_copy_avx

    .hidden uncopy_zx_copy_end
    .globl uncopy_zx_copy_end
uncopy_zx_copy_end:

    .hidden uncopy_zx_copy_avx_landing
    .globl uncopy_zx_copy_avx_landing
uncopy_zx_copy_avx_landing:
    vzeroupper
    .hidden uncopy_zx_copy_landing
    .globl uncopy_zx_copy_landing
uncopy_zx_copy_landing:
    mov eax, 1
    ret
    .popsection
"#
);

// SAFETY: the symbols are those of the assembly above, with these signatures: C's calling
// convention, registers that a callee may change, no stack.
unsafe extern "C" {
    static uncopy_zx_copy_begin: u8;
    static uncopy_zx_copy_avx_begin: u8;
    static uncopy_zx_copy_end: u8;
    static uncopy_zx_copy_landing: u8;
    static uncopy_zx_copy_avx_landing: u8;
    fn uncopy_zx_copy_short(to: *mut u8, from: *const u8, length: usize) -> u32;
    fn uncopy_zx_copy_string(to: *mut u8, from: *const u8, length: usize) -> u32;
    fn uncopy_zx_copy_avx(to: *mut u8, from: *const u8, length: usize) -> u32;
}

/// Longest copy that goes without a loop.
const SHORT_BYTES: usize = 128;
/// From here on `rep movsb` is quicker where the processor is quick at it (ERMS): both sides together
/// begin to outgrow the first cache, as with glibc's `memcpy`.
const STRING_BYTES: usize = 24 << 10;

/// Copies; false if either side faulted, which it survives while the handlers are installed.
///
/// # Safety
/// What can be written at `to` may be, and the two do not overlap.
#[inline]
pub(super) unsafe fn copy(to: *mut u8, from: *const u8, length: usize) -> bool {
    if length <= SHORT_BYTES {
        // SAFETY: the caller's promise; up to 128 bytes, as the code assumes.
        return unsafe { uncopy_zx_copy_short(to, from, length) } == 0;
    }
    // What there is is asked of the processor once (std caches it).
    let is_long = length >= STRING_BYTES && std::arch::is_x86_feature_detected!("ermsb");
    if !is_long && std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the caller's promise; more than 128 bytes, and the processor has AVX.
        return unsafe { uncopy_zx_copy_avx(to, from, length) } == 0;
    }
    // SAFETY: the caller's promise.
    unsafe { uncopy_zx_copy_string(to, from, length) == 0 }
}

/// Where a fault at `counter` lands, if that lies in the copying code.
fn landing(counter: usize) -> Option<usize> {
    let [begin, avx, end] = [
        &raw const uncopy_zx_copy_begin,
        &raw const uncopy_zx_copy_avx_begin,
        &raw const uncopy_zx_copy_end,
    ]
    .map(<*const u8>::addr);
    if (begin..avx).contains(&counter) {
        Some((&raw const uncopy_zx_copy_landing).addr())
    } else if (avx..end).contains(&counter) {
        Some((&raw const uncopy_zx_copy_avx_landing).addr())
    } else {
        None
    }
}

/// Sends the interrupted thread to the landing place if it faulted in the copying code; says
/// whether it did.
pub(super) fn land(context: &mut ucontext_t) -> bool {
    let counter = &mut context.uc_mcontext.gregs[libc::REG_RIP as usize];
    let landing = landing(*counter as usize);
    landing.map(|place| *counter = place as i64).is_some()
}
