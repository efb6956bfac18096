//! Derive macros of `uncopy-fidl` and `uncopy-fidl-channel`, which re-export them.
#![deny(missing_docs, unsafe_code)]

mod attributes;
mod bits;
mod enumeration;
mod model;
mod protocol;
mod structure;
mod table;
mod union;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use syn::{Data, DeriveInput, Error, ItemTrait, Result, parse_macro_input};

use attributes::TypeAttributes;
use model::Subject;

/// Makes a Rust type a FIDL type.
///
/// A struct is a FIDL struct, a table (`#[fidl(table)]`) or bits (`#[fidl(bits(…))]`). An enum with
/// a number type (`#[repr(u16)]`) is a FIDL enum, any other a union. A struct, table or union
/// `Photo` also gets a view, `PhotoView`. A type that borrows (`struct Photo<'a> { pixels: &'a [u8]
/// }`) can only be encoded.
///
/// # Attributes of types
/// | `#[fidl(…)]` | on | means |
/// |---|---|---|
/// | `table` | structs | a table; every field is an `Option` and has an ordinal |
/// | `bits(READ = 1, WRITE = 2)` | structs of one number | bits, with constants of these names |
/// | `flexible` | bits | unnamed bits are kept |
/// | `plain` | structs with `#[repr(C)]` | identical in memory and on the wire; also derive zerocopy's `FromBytes`, `IntoBytes`, `KnownLayout` and `Immutable`, which fail to compile if that is not the case. Its view is `Plain` |
/// | `resource = Handle` | all but bits and enums | may have handles of this type |
/// | `reserved(2, 3)` | tables, unions | ordinals that must not be used |
///
/// # Attributes of fields and variants
/// | `#[fidl(…)]` | on | means |
/// |---|---|---|
/// | `ordinal = 1` | fields of tables, variants of unions | its ordinal |
/// | `max = 16` | vectors, strings | maximum number of items or bytes |
/// | `item(…)` | vectors, arrays | `max`, `kind`, `rights` or `item` for each item |
/// | `kind = ObjectType::EVENT` | handles | required object type |
/// | `rights = HandleRights::BASIC` | handles | rights that the handle must have, and to which it is reduced; default for a `ClientEnd` or `ServerEnd`: those of a channel (0xF00E) |
/// | `unknown` | one variant | the type is flexible: `Unknown(u16)` of an enum keeps other numbers, `Unknown(uncopy_fidl::Unknown)` of a union other members |
#[proc_macro_derive(Fidl, attributes(fidl))]
pub fn derive_fidl(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// Generates clients and services for a protocol, written as a trait: a function with an answer is
/// a two-way method, a function without one is a one-way method, and a function with
/// `#[fidl(event)]` is an event. Each has at most one payload, a struct, table or union.
///
/// `trait Echo` generates `EchoClient`; `EchoServer`, the trait that a server implements, and
/// `EchoService`, which makes a service from it; if there are events, `EchoEvent` and
/// `EchoEventSender`; and `Echo` itself, for `ClientEnd<Echo, _>`, which `EchoClient::from_end`
/// turns into a client.
///
/// | `#[protocol(…)]` | means |
/// |---|---|
/// | `library = "example"` | ordinals are computed from `example/Echo.Method`, with the method's name in camel case |
/// | `open`, `ajar`, `closed` | treatment of unknown messages; default: `open` |
/// | `tokio` | also generates `AsyncEchoClient`; needs the feature `tokio` of `uncopy-fidl-channel`, and the crate `uncopy` |
///
/// | `#[fidl(…)]` on functions | means |
/// |---|---|
/// | `flexible` | a receiver may ignore it if unknown; the answer is a `MethodResult` |
/// | `event` | sent by the server without a request |
/// | `ordinal = 5` | an explicit ordinal |
///
/// An answer `Result<Answer, Error>` is also sent as a `MethodResult`.
#[proc_macro_attribute]
pub fn protocol(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut parsed = protocol::Arguments::default();
    let parser = syn::meta::parser(|meta| parsed.word(&meta));
    parse_macro_input!(arguments with parser);
    let item = parse_macro_input!(item as ItemTrait);
    protocol::expand(&parsed, &item).unwrap_or_else(Error::into_compile_error).into()
}

fn expand(input: &DeriveInput) -> Result<Tokens> {
    let attributes = TypeAttributes::parse(&input.attrs)?;
    let subject = Subject::new(input, attributes)?;
    match &input.data {
        Data::Struct(data) if subject.attributes.bits.is_some() => bits::expand(&subject, data),
        Data::Struct(data) if subject.attributes.table.is_some() => table::expand(&subject, data),
        Data::Struct(data) => structure::expand(&subject, data),
        Data::Enum(data) => match &subject.attributes.number {
            Some(number) => enumeration::expand(&subject, data, number),
            None => union::expand(&subject, data),
        },
        Data::Union(data) => Err(Error::new(
            data.union_token.span,
            "Rust's unions do not know which member they have: write an enum with ordinals",
        )),
    }
}

#[cfg(test)]
mod tests {
    use syn::parse::Parser;

    use super::{expand, protocol};

    /// Tests that each mistake is reported, at the wrong words.
    #[test]
    fn mistakes_are_shown_where_they_are() {
        for (source, message, place) in [
            (
                "#[fidl(table)] struct T { #[fidl(ordinal = 1)] a: Option<u8>, \
                 #[fidl(ordinal = 0x1)] b: Option<u8> }",
                "ordinal 1 is there twice",
                "0x1",
            ),
            ("enum U { #[fidl(ordinal = 0)] A(u8) }", "ordinals begin with 1", "0"),
            (
                "#[fidl(table)] struct T { #[fidl(ordinal = 65)] a: Option<u8> }",
                "ordinal 65, 64 at most",
                "65",
            ),
            (
                "#[fidl(reserved(2, 3))] enum U { #[fidl(ordinal = 3)] A(u8) }",
                "ordinal 3 is reserved",
                "3",
            ),
            ("#[fidl(table)] struct T { a: Option<u8> }", "it has no ordinal", "a"),
            ("enum U { A(u8) }", "it has no ordinal", "A"),
            (
                "#[fidl(table)] struct T { #[fidl(ordinal = 1)] a: Vec<u8> }",
                "a table's field may be absent",
                "Vec",
            ),
            ("#[fidl(tabel)] struct T { }", "no attribute of a FIDL type", "tabel"),
            ("struct T { #[fidl(most = 3)] a: String }", "no attribute of a FIDL field", "most"),
            ("struct T { #[fidl(item(ordinal = 3))] a: String }", "no constraint", "ordinal"),
            ("struct T { #[fidl(ordinal = 3)] a: String }", "means nothing", "3"),
            ("#[repr(u8)] enum E { A }", "a member says its number", "A"),
            ("#[repr(u8)] enum E { A(u8) = 1 }", "a member of a FIDL enum has no payload", "("),
            (
                "#[repr(u8)] enum E { A = 1, #[fidl(unknown)] B(u16) }",
                "it carries the number: B(u8)",
                "#",
            ),
            (
                "enum U { #[fidl(unknown)] A(Unknown), #[fidl(unknown)] B(Unknown) }",
                "one variant carries all unknown members",
                "unknown",
            ),
            ("enum U { #[fidl(ordinal = 1)] A }", "no member has a payload", "U"),
            ("enum U { #[fidl(ordinal = 1)] A }", "`#[repr(u32)]`, `A = 1`", "U"),
            ("enum T { A = 1 }", "add `#[repr(u32)]`", "A"),
            ("enum T { B, A = 1, C }", "add `#[repr(u32)]`", "A"),
            ("enum U { #[fidl(ordinal = 1)] A(u8, u8) }", "one payload", "("),
            ("#[fidl(flexible)] enum U { #[fidl(ordinal = 1)] A(u8) }", "as `unknown`", "flexible"),
            ("struct T<X> { a: X }", "FIDL types have no parameters", "X"),
            ("struct T(u8, u16);", "the fields of a FIDL struct have names", "("),
            ("#[fidl(bits(A = 1))] struct T(i8);", "bits are a struct of one number", "struct"),
            ("#[fidl(plain)] struct T<'a> { a: &'a u8 }", "neither borrows", "plain"),
            ("union X { a: u8 }", "Rust's unions", "union"),
            ("#[fidl(bits(A = 1), resource = H)] struct T(u8);", "bits have no handles", "H"),
            ("#[repr(u8)] #[fidl(resource = H)] enum E { A = 1 }", "an enum has no handles", "H"),
            (
                "#[repr(u8)] enum E { #[fidl(unknown)] A(u8), #[fidl(unknown)] B(u8) }",
                "one variant carries all unknown numbers",
                "unknown",
            ),
            ("enum U { #[fidl(ordinal = 1)] A(u8), #[fidl(unknown)] B }", "it carries what", "#"),
            ("#[fidl(table)] struct T(u8);", "the fields of a table have names", "struct"),
        ] {
            let input = syn::parse_str(source).expect("an item");
            let error = expand(&input).expect_err(source);
            assert!(error.to_string().contains(message), "{source}: {error}");
            let found = error.span().source_text().unwrap_or_default();
            assert!(found.starts_with(place), "{source}: shown at {found}");
        }
    }

    #[test]
    fn what_is_right_expands() {
        for source in [
            "struct T { a: u8, #[fidl(max = 3, item(max = 4))] b: Vec<String> }",
            "struct Empty;",
            "#[fidl(table)] struct T { #[fidl(ordinal = 64)] a: ::core::option::Option<u8> }",
            "#[repr(i64)] enum E { A = -1, #[fidl(unknown)] B(i64) }",
            "enum U { #[fidl(ordinal = 1)] A, #[fidl(unknown)] B(Unknown) }",
            "#[fidl(bits(A = 1, B = 2), flexible)] struct T(u64);",
            "#[fidl(resource = Handle)] struct T { a: OwnedHandle<Handle> }",
            "#[repr(C, align(8))] struct T { a: (u8) }",
        ] {
            let input = syn::parse_str(source).expect("an item");
            let expanded = expand(&input).expect(source);
            syn::parse2::<syn::File>(expanded).expect(source);
        }
    }

    /// Expands a trait with these arguments.
    fn expand_protocol(arguments: &str, item: &str) -> syn::Result<proc_macro2::TokenStream> {
        let mut parsed = protocol::Arguments::default();
        syn::meta::parser(|meta| parsed.word(&meta)).parse_str(arguments)?;
        protocol::expand(&parsed, &syn::parse_str(item)?)
    }

    #[test]
    fn mistakes_in_protocols_are_shown_where_they_are() {
        let library = "library = \"x\"";
        for (arguments, item, message, place) in [
            ("opened", "trait P {}", "no argument of a protocol", "opened"),
            ("open", "trait P {}", "ordinals are made of the library's name", "P"),
            (library, "trait P { const N: u8; }", "methods and events only", "const"),
            (library, "trait P { #[fidl(strict)] fn m(); }", "no attribute of a method", "strict"),
            (library, "trait P { fn m() {} }", "has no body", "{"),
            (library, "trait P { fn m(&self); }", "adds `&self`", "&"),
            (library, "trait P { fn m(a: A, b: B); }", "name a struct for several", "b"),
            (library, "trait P { fn m((a, b): A); }", "the payload has a name", "("),
            (library, "trait P { fn m() -> Result<A>; }", "name both types", "Result"),
            (library, "trait P { #[fidl(event)] fn m() -> A; }", "an event has no answer", "-"),
            (library, "trait P { #[fidl(ordinal = 0)] fn m(); }", "0 or there twice", "m"),
            (
                library,
                "trait P { #[fidl(ordinal = 7)] fn a(); #[fidl(ordinal = 7)] fn b(); }",
                "0 or there twice",
                "b",
            ),
        ] {
            let error = expand_protocol(arguments, item).expect_err(item);
            assert!(error.to_string().contains(message), "{item}: {error}");
            let found = error.span().source_text().unwrap_or_default();
            assert!(found.starts_with(place), "{item}: shown at {found}");
        }
        // A type that is neither a `Result` nor a path is treated as a plain answer.
        for item in ["trait P { fn m() -> [A; 2]; }", "trait P { fn m() -> Page<'a, A>; }"] {
            expand_protocol(library, item).expect(item);
        }
    }
}
