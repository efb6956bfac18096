//! Bits: a number whose bits have names.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{DataStruct, Error, Fields, Result, Type};

use crate::model::{LayoutOf, Subject, peeled};

const NUMBERS: [&str; 4] = ["u8", "u16", "u32", "u64"];

pub(crate) fn expand(subject: &Subject<'_>, data: &DataStruct) -> Result<TokenStream> {
    let attributes = &subject.attributes;
    subject.refuse("table", attributes.table, "bits")?;
    subject.refuse("plain", attributes.plain, "bits")?;
    if let Some(handle) = &attributes.resource {
        return Err(Error::new_spanned(handle, "bits have no handles"));
    }
    let number = number(data)?;
    let layout = subject.layout(&LayoutOf {
        size: quote!(::core::mem::size_of::<#number>()),
        align: quote!(::core::mem::size_of::<#number>()),
        is_flat: quote!(true),
        validity: if attributes.flexible.is_some() {
            quote!(__fidl::Validity::Any)
        } else {
            quote!(__fidl::Validity::zeros_in_number(!Self::ALL.0 as u64))
        },
    });
    let unknown = quote! {
        __fidl::Rule::UnknownBits {
            known: u64::from(Self::ALL.0),
            found: u64::from(self.0),
        }
    };
    let check = attributes.flexible.is_none().then(|| {
        quote! {
            if self.0 & !Self::ALL.0 != 0 {
                return Err(__fidl::error(#unknown));
            }
        }
    });
    let inline = quote! {
        #check
        inline.copy_from_slice(&self.0.to_le_bytes());
        Ok(())
    };
    let encode = subject.encode(&inline, &quote!(Ok(())), &TokenStream::new());
    let check = attributes.flexible.is_none().then(|| {
        quote! {
            if found & !Self::ALL.0 != 0 {
                return Err(inline.breaks(__fidl::Rule::UnknownBits {
                    known: u64::from(Self::ALL.0),
                    found: u64::from(found),
                }));
            }
        }
    });
    let decode = subject.decode(
        &quote!(Self),
        &quote! {
            let found = #number::from_le_bytes(inline.array());
            #check
            Ok(Self(found))
        },
        None,
    );
    let take = subject.take_handles(&TokenStream::new());
    let from_view = subject.owned(&quote!(view), None);
    let scope = subject.scope(&quote!(#layout #encode #take #decode #from_view));
    let members = members(subject, number);
    Ok(quote!(#members #scope))
}

fn number(data: &DataStruct) -> Result<&Type> {
    if let Fields::Unnamed(fields) = &data.fields
        && fields.unnamed.len() == 1
        && let Some(ty @ Type::Path(path)) = fields.unnamed.first().map(|field| peeled(&field.ty))
        && NUMBERS.iter().any(|number| path.path.is_ident(number))
    {
        return Ok(ty);
    }
    let message = "bits are a struct of one number: struct Mode(u8), u16, u32 or u64";
    Err(Error::new(data.struct_token.span, message))
}

/// Constants and methods.
fn members(subject: &Subject<'_>, number: &Type) -> TokenStream {
    let (name, visibility) = (subject.name, &subject.input.vis);
    let bits = subject.attributes.bits.as_ref();
    let members: Vec<_> = bits.map(|bits| bits.members.iter().collect()).unwrap_or_default();
    let constants = members.iter().map(|(member, value)| {
        let about = format!("The bit `{member}`.");
        quote! {
            #[doc = #about]
            #visibility const #member: Self = Self(#value);
        }
    });
    let checks = members.iter().enumerate().map(|(index, (member, _))| {
        let before = members[..index]
            .iter()
            .map(|(before, _)| quote!(&& #name::#before.0 & #name::#member.0 == 0));
        quote_spanned! {member.span()=>
            const _: () = assert!(
                #name::#member.0.count_ones() == 1 #(#before)*,
                "each of the bits has one bit of its own"
            );
        }
    });
    let all = match members.split_first() {
        Some(((first, _), others)) => {
            let others = others.iter().map(|(member, _)| member);
            quote!(Self::#first.0 #(| Self::#others.0)*)
        }
        None => quote!(0),
    };
    quote! {
        #[allow(dead_code)]
        impl #name {
            #(#constants)*

            /// Contains every named bit.
            #visibility const ALL: Self = Self(#all);

            /// Returns the number.
            #[must_use]
            #visibility const fn bits(self) -> #number {
                self.0
            }

            /// Whether all bits of `other` are set.
            #[must_use]
            #visibility const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }
        }

        impl ::core::ops::BitOr for #name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        #(#checks)*
    }
}
