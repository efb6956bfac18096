//! Generates the setter methods of options, one for each field.

/// Writes a method for each field, of its name, that takes its value and returns the options.
macro_rules! setters {
    ($options:ident { $($field:ident: $type:ty,)* }) => {
        impl $options {
            $(
                #[doc = concat!(
                    "Sets [`", stringify!($field), "`](field@", stringify!($options), "::",
                    stringify!($field), ")."
                )]
                #[must_use]
                pub fn $field(mut self, $field: impl Into<$type>) -> $options {
                    self.$field = $field.into();
                    self
                }
            )*
        }
    };
}

pub(crate) use setters;
