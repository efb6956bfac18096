//! Stable names of enums' variants, for programs.

/// Gives an enum a method `code` and the list `CODES`, both from one table of patterns and names. Patterns
/// behind `else` have the code of something else, which has a list of its own.
#[doc(hidden)]
#[macro_export]
macro_rules! codes {
    ($kind:ident {
        $($pattern:pat => $code:literal,)*
    } $(else { $other:pat => $elsewhere:expr })?) => {
        impl $kind {
            /// Every code, in the order of the variants.
            pub const CODES: &[&str] = &[$($code),*];

            /// Returns the stable name for programs, which stays when the words change.
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
