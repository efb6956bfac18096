//! Macro for enums of facts with texts.

/// Defines an enum of facts with named fields, and the text of each: a format string that may name the
/// fields and additional arguments.
macro_rules! worded {
    (
        $(#[$about:meta])*
        pub enum $name:ident {
            $(
                $(#[$doc:meta])*
                $variant:ident $({ $($(#[$of_field:meta])* $field:ident: $type:ty),+ $(,)? })?
                    = $text:literal $(, $named:ident = $value:expr)*;
            )*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            $(
                $(#[$doc])*
                $variant $({ $($(#[$of_field])* $field: $type),+ })?,
            )*
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $($name::$variant $({ $($field),+ })? => {
                        write!(f, $text $(, $named = $value)*)
                    })*
                }
            }
        }
    };
}
pub(crate) use worded;
