//! Copying on x86-64, by code that continues at a landing address after a fault.
//!
//! Registers that only AVX-512 has (`ymm16` and up) need no `vzeroupper`, which makes a copy of 256
//! bytes a third slower.
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

    /* More than 128 bytes, through nine registers of 32 bytes. */
    .macro uncopy_zx_copy_wide r0, r1, r2, r3, r4, r5, r6, r7, r8, leave:vararg
    cmp rdx, 256
    ja 45f
    vmovups \r0, [rsi]
    vmovups \r1, [rsi + 32]
    vmovups \r2, [rsi + 64]
    vmovups \r3, [rsi + 96]
    vmovups \r4, [rsi + rdx - 128]
    vmovups \r5, [rsi + rdx - 96]
    vmovups \r6, [rsi + rdx - 64]
    vmovups \r7, [rsi + rdx - 32]
    vmovups [rdi], \r0
    vmovups [rdi + 32], \r1
    vmovups [rdi + 64], \r2
    vmovups [rdi + 96], \r3
    vmovups [rdi + rdx - 128], \r4
    vmovups [rdi + rdx - 96], \r5
    vmovups [rdi + rdx - 64], \r6
    vmovups [rdi + rdx - 32], \r7
    \leave
    xor eax, eax
    ret
45:
    vmovups \r4, [rsi]
    vmovups \r5, [rsi + rdx - 32]
    vmovups \r6, [rsi + rdx - 64]
    vmovups \r7, [rsi + rdx - 96]
    vmovups \r8, [rsi + rdx - 128]
    lea r9, [rdi + rdx]
    lea r10, [rdi + rdx - 128]
    lea r8, [rdi + 32]
    and r8, -32
    vmovups [rdi], \r4
    sub r8, rdi
    add rsi, r8
    add rdi, r8
    cmp rdi, r10
    jae 60f
    .balign 32
50:
    vmovups \r0, [rsi]
    vmovups \r1, [rsi + 32]
    vmovups \r2, [rsi + 64]
    vmovups \r3, [rsi + 96]
    sub rsi, -128
    vmovaps [rdi], \r0
    vmovaps [rdi + 32], \r1
    vmovaps [rdi + 64], \r2
    vmovaps [rdi + 96], \r3
    sub rdi, -128
    cmp rdi, r10
    jb 50b
60:
    vmovups [r9 - 128], \r8
    vmovups [r9 - 96], \r7
    vmovups [r9 - 64], \r6
    vmovups [r9 - 32], \r5
    \leave
    xor eax, eax
    ret
    .endm

    .balign 64
    .hidden uncopy_zx_copy_evex
    .globl uncopy_zx_copy_evex
    .type uncopy_zx_copy_evex, @function
uncopy_zx_copy_evex:
    .cfi_startproc
    cmp rdx, 32
    jb uncopy_zx_copy_short
    cmp rdx, 64
    ja 41f
    vmovups ymm16, [rsi]
    vmovups ymm17, [rsi + rdx - 32]
    vmovups [rdi], ymm16
    vmovups [rdi + rdx - 32], ymm17
    xor eax, eax
    ret
41:
    cmp rdx, 128
    ja 42f
    vmovups ymm16, [rsi]
    vmovups ymm17, [rsi + 32]
    vmovups ymm18, [rsi + rdx - 64]
    vmovups ymm19, [rsi + rdx - 32]
    vmovups [rdi], ymm16
    vmovups [rdi + 32], ymm17
    vmovups [rdi + rdx - 64], ymm18
    vmovups [rdi + rdx - 32], ymm19
    xor eax, eax
    ret
42:
    cmp rdx, 256
    ja 43f
    vmovups zmm16, [rsi]
    vmovups zmm17, [rsi + 64]
    vmovups zmm18, [rsi + rdx - 128]
    vmovups zmm19, [rsi + rdx - 64]
    vmovups [rdi], zmm16
    vmovups [rdi + 64], zmm17
    vmovups [rdi + rdx - 128], zmm18
    vmovups [rdi + rdx - 64], zmm19
    xor eax, eax
    ret
43:
    cmp rdx, {string_bytes}
    jae uncopy_zx_copy_string
    uncopy_zx_copy_wide ymm16, ymm17, ymm18, ymm19, ymm20, ymm21, ymm22, ymm23, ymm24
    .cfi_endproc
    .size uncopy_zx_copy_evex, . - uncopy_zx_copy_evex

    .hidden uncopy_zx_copy_avx_begin
    .globl uncopy_zx_copy_avx_begin
uncopy_zx_copy_avx_begin:
    .balign 64
    .hidden uncopy_zx_copy_avx
    .globl uncopy_zx_copy_avx
    .type uncopy_zx_copy_avx, @function
uncopy_zx_copy_avx:
    .cfi_startproc
    uncopy_zx_copy_wide ymm0, ymm1, ymm2, ymm3, ymm4, ymm5, ymm6, ymm7, ymm8, vzeroupper
    .cfi_endproc
    .size uncopy_zx_copy_avx, . - uncopy_zx_copy_avx
    .purgem uncopy_zx_copy_wide

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
"#,
    string_bytes = const STRING_BYTES,
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
    fn uncopy_zx_copy_evex(to: *mut u8, from: *const u8, length: usize) -> u32;
    fn uncopy_zx_copy_avx(to: *mut u8, from: *const u8, length: usize) -> u32;
}

/// Maximum size that is copied without a loop in registers of 16 bytes.
const SHORT_BYTES: usize = 128;
/// Minimum size for `rep movsb` on processors where it is fast (ERMS): both ranges together exceed the
/// first-level cache, as in glibc's `memcpy`.
const STRING_BYTES: usize = 24 << 10;

/// Returns the fastest copy function of this processor.
pub(super) fn best() -> Copy {
    let has_evex = std::arch::is_x86_feature_detected!("avx512vl");
    match has_evex && std::arch::is_x86_feature_detected!("ermsb") {
        true => uncopy_zx_copy_evex,
        false => copy_without_evex,
    }
}

/// Returns all copy functions that run on this processor.
#[cfg(test)]
pub(super) fn all() -> Vec<Copy> {
    vec![best(), copy_without_evex, uncopy_zx_copy_string]
}

/// Copies on a processor without AVX-512.
///
/// # Safety
/// As [`type@Copy`].
unsafe extern "C" fn copy_without_evex(to: *mut u8, from: *const u8, length: usize) -> u32 {
    if length <= SHORT_BYTES {
        // SAFETY: the caller's promise; up to 128 bytes, as the code assumes.
        return unsafe { uncopy_zx_copy_short(to, from, length) };
    }
    // The standard library caches the features of the processor.
    let is_long = length >= STRING_BYTES && std::arch::is_x86_feature_detected!("ermsb");
    if !is_long && std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the caller's promise; more than 128 bytes, and the processor has AVX.
        return unsafe { uncopy_zx_copy_avx(to, from, length) };
    }
    // SAFETY: the caller's promise.
    unsafe { uncopy_zx_copy_string(to, from, length) }
}

/// Returns the landing address for a fault at `counter`, if that is in the copying code.
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

/// Lets the interrupted thread continue at the landing address if it faulted in the copying code;
/// returns whether it did.
pub(super) fn land(context: &mut ucontext_t) -> bool {
    let counter = &mut context.uc_mcontext.gregs[libc::REG_RIP as usize];
    let landing = landing(*counter as usize);
    landing.map(|place| *counter = place as i64).is_some()
}
