//! Stable names of enum variants, for programs.

/// Generates a method `code` and the list `CODES` from one table of patterns and names. Patterns
/// after `else` take their code from another list.
#[doc(hidden)]
#[macro_export]
macro_rules! codes {
    ($kind:ident {
        $($pattern:pat => $code:literal,)*
    } $(else { $other:pat => $elsewhere:expr })?) => {
        impl $kind {
            /// Every code, in the order of the variants.
            pub const CODES: &[&str] = &[$($code),*];

            /// Returns the stable name for programs, which does not change with the text.
            #[must_use]
            pub const fn code(&self) -> &'static str {
                match self {
                    $($pattern => $code,)*
                    $($other => $elsewhere,)?
                }
            }
        }
    };
}
