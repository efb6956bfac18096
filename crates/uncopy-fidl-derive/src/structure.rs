//! Structs: adjacent fields, aligned.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DataStruct, Error, Fields, Result};

use crate::attributes::MemberAttributes;
use crate::model::{LayoutOf, Member, Subject};

pub(crate) fn expand(subject: &Subject<'_>, data: &DataStruct) -> Result<TokenStream> {
    let attributes = &subject.attributes;
    subject.refuse("flexible", attributes.flexible, "a struct")?;
    subject.refuse("reserved", attributes.reserved.first().map(|o| o.span), "a struct")?;
    let members = members(data)?;
    for member in &members {
        let MemberAttributes { ordinal, unknown, .. } = &member.attributes;
        subject.refuse("ordinal", ordinal.map(|ordinal| ordinal.span), "a struct's field")?;
        subject.refuse("unknown", *unknown, "a struct's field")?;
    }
    if let Some(span) = attributes.plain {
        if subject.borrows() || attributes.resource.is_some() {
            return Err(Error::new(span, "a plain struct neither borrows nor has handles"));
        }
        return Ok(plain(subject, &members));
    }
    let layout = layout(subject, &members);
    let encode = encode(subject, &members, &TokenStream::new());
    let take = take_handles(subject, &members);
    let boxed = boxed(subject);
    let constants = constants(subject, &members);
    if subject.borrows() {
        return Ok(subject.scope(&quote!(#constants #layout #encode #take #boxed)));
    }
    let view = view(subject, data, &members);
    let decode = decode(subject, &members);
    let from_view = from_view(subject, &members);
    let boxed_decode = boxed_decode(subject);
    let scope = subject.scope(&quote! {
        #constants #layout #encode #take #boxed #decode #from_view #boxed_decode
    });
    Ok(quote!(#view #scope))
}

fn members(data: &DataStruct) -> Result<Vec<Member<'_>>> {
    match &data.fields {
        Fields::Named(fields) => {
            let named = fields.named.iter().enumerate();
            named
                .filter_map(|(i, field)| Some((i, field.ident.as_ref()?, field)))
                .map(|(i, ident, field)| Member::new(i, ident, &field.ty, &field.attrs))
                .collect()
        }
        Fields::Unit => Ok(Vec::new()),
        Fields::Unnamed(fields) => Err(Error::new(
            fields.paren_token.span.join(),
            "the fields of a FIDL struct have names",
        )),
    }
}

fn constants(subject: &Subject<'_>, members: &[Member<'_>]) -> TokenStream {
    let constraints = subject.constants(members);
    let types: Vec<TokenStream> = members.iter().map(Member::spanned_type).collect();
    let count = members.len();
    quote! {
        #constraints
        const LAYOUT: __fidl::StructLayout<#count> = __fidl::StructLayout::new([
            #(__fidl::FieldLayout {
                size: <#types as __fidl::Layout>::SIZE,
                align: <#types as __fidl::Layout>::ALIGN,
                validity: <#types as __fidl::Layout>::VALIDITY,
            },)*
        ]);
    }
}

fn layout(subject: &Subject<'_>, members: &[Member<'_>]) -> TokenStream {
    let types: Vec<TokenStream> = members.iter().map(Member::spanned_type).collect();
    subject.layout(&LayoutOf {
        size: quote!(LAYOUT.size),
        align: quote!(LAYOUT.align),
        is_flat: quote!(__fidl::all(&[#(<#types as __fidl::Layout>::IS_FLAT),*])),
        validity: quote!(LAYOUT.validity),
    })
}

fn encode(subject: &Subject<'_>, members: &[Member<'_>], further: &TokenStream) -> TokenStream {
    let inline = members.iter().enumerate().map(|(index, member)| {
        let Member { ident, label, ty, constant, .. } = member;
        quote! {
            <#ty as __fidl::Encode>::encode_inline(
                &self.#ident,
                &mut inline[LAYOUT.offsets[#index]..][..<#ty as __fidl::Layout>::SIZE],
                #constant,
            )
            .map_err(|error| error.in_field(#label))?;
        }
    });
    let rest = members.iter().enumerate().map(|(index, member)| {
        let Member { ident, label, ty, constant, .. } = member;
        quote! {
            if !<#ty as __fidl::Layout>::IS_FLAT {
                let at = at + LAYOUT.offsets[#index];
                <#ty as __fidl::Encode>::encode_rest(&self.#ident, out, at, #constant, depth)
                    .map_err(|error| error.in_field(#label))?;
            }
        }
    });
    let inline = quote! {
        let inline = &mut inline[..LAYOUT.size];
        let _ = &inline;
        #(#inline)*
        Ok(())
    };
    subject.encode(&inline, &quote!(#(#rest)* Ok(())), further)
}

fn take_handles(subject: &Subject<'_>, members: &[Member<'_>]) -> TokenStream {
    let handle = subject.handle();
    let taken = members.iter().map(|Member { ident, label, ty, constant, .. }| {
        quote! {
            <#ty as __fidl::TakeHandles<#handle>>::take_handles(
                &mut self.#ident,
                leaving,
                #constant,
            )
            .map_err(|error| error.in_field(#label))?;
        }
    });
    subject.take_handles(&quote!(#(#taken)* Ok(())))
}

/// A struct is optional in a box.
fn boxed(subject: &Subject<'_>) -> TokenStream {
    let own = subject.own();
    let boxed = quote!(::std::boxed::Box<#own>);
    let sizes = quote! {
        const OPTIONAL_SIZE: usize = __fidl::BOX_SIZE;
        const OPTIONAL_ALIGN: usize = __fidl::BOX_SIZE;
    };
    let optional = subject.implement(&quote!(__fidl::Optional), &boxed, &sizes);
    let body = quote! {
        #[inline]
        fn encode_some_inline(
            &self,
            inline: &mut [u8],
            _: __fidl::NoConstraint,
        ) -> __fidl::Result<()> {
            __fidl::encode_box_inline(inline)
        }

        #[inline]
        fn encode_some_rest<'__v, __O: __fidl::Output<'__v>>(
            &'__v self,
            out: &mut __O,
            _: usize,
            constraint: __fidl::NoConstraint,
            depth: __fidl::Depth,
        ) -> __fidl::Result<()> {
            __fidl::encode_box_rest::<#own, __O>(self, out, constraint, depth)
        }
    };
    let encode = subject.implement(&quote!(__fidl::EncodeOptional), &boxed, &body);
    quote!(#optional #encode)
}

fn boxed_decode(subject: &Subject<'_>) -> TokenStream {
    let name = subject.name;
    let body = quote! {
        #[inline]
        fn decode_optional<'a>(
            inline: __fidl::Inline<'a>,
            decoder: &mut __fidl::Decoder<'a, '_>,
            constraint: __fidl::NoConstraint,
            depth: __fidl::Depth,
        ) -> __fidl::Result<::core::option::Option<__fidl::Boxed<'a, #name>>> {
            __fidl::decode_box::<#name>(inline, decoder, constraint, depth)
        }

        // Without inlining, the whole layout would be returned through memory at every level.
        #[inline(always)]
        fn present<'a>(
            inline: __fidl::Inline<'a>,
            decoder: &mut __fidl::Decoder<'a, '_>,
            depth: __fidl::Depth,
        ) -> __fidl::Result<::core::option::Option<(__fidl::Inline<'a>, __fidl::Depth)>> {
            __fidl::open_box::<#name>(inline, decoder, depth)
        }
    };
    let boxed = quote!(::std::boxed::Box<#name>);
    subject.implement(&quote!(__fidl::DecodeOptional), &boxed, &body)
}

fn view(subject: &Subject<'_>, data: &DataStruct, members: &[Member<'_>]) -> TokenStream {
    let (name, visibility) = (subject.name, &subject.input.vis);
    let about = format!("A [`{name}`] in a message.");
    let fields = members.iter().zip(&data.fields).map(|(member, field)| {
        let Member { ident, ty, docs, .. } = member;
        let visibility = &field.vis;
        let docs = subject.view_docs(docs);
        quote! {
            #docs
            #visibility #ident: <#ty as ::uncopy_fidl::derived::Decode>::View<'a>
        }
    });
    let (head, view) = (subject.view_head(&about), subject.view_of(members));
    quote! {
        #head
        #visibility struct #view { #(#fields,)* }
    }
}

fn decode(subject: &Subject<'_>, members: &[Member<'_>]) -> TokenStream {
    let view = &subject.view;
    let fields = members.iter().enumerate().map(|(index, member)| {
        let Member { ident, label, ty, constant, .. } = member;
        quote! {
            #ident: <#ty as __fidl::Decode>::decode(
                inline.part(LAYOUT.offsets[#index], <#ty as __fidl::Layout>::SIZE),
                decoder,
                #constant,
                depth,
            )
            .map_err(|error| error.in_field(#label))?
        }
    });
    let padding = padding(members);
    let body = quote! {
        #padding
        Ok(#view { #(#fields),* })
    };
    let printed = members.iter().enumerate().map(|(index, member)| {
        let Member { label, ty, constant, .. } = member;
        quote! {
            let part = inline.part(LAYOUT.offsets[#index], <#ty as __fidl::Layout>::SIZE);
            fields.field(
                #label,
                &__fidl::DebugOnce::new(|f| {
                    <#ty as __fidl::Decode>::print(part, decoder, #constant, depth, f)
                }),
            );
        }
    });
    let name = view.to_string();
    let print = quote! {
        let mut fields = f.debug_struct(#name);
        #(#printed)*
        fields.finish()
    };
    subject.decode(&subject.view_of(members), &body, Some(&print))
}

/// Checks that the padding between the fields and at the end is 0.
fn padding(members: &[Member<'_>]) -> TokenStream {
    let padding = members.iter().enumerate().map(|(index, member)| {
        let ty = &member.ty;
        quote! {
            inline.check_padding(
                LAYOUT.offsets[#index] + <#ty as __fidl::Layout>::SIZE,
                LAYOUT.ends[#index],
            )?;
        }
    });
    let padding = if members.is_empty() {
        quote!(inline.check_padding(0, 1)?;)
    } else {
        quote!(#(#padding)*)
    };
    quote! {
        let inline = inline.part(0, LAYOUT.size);
        #padding
    }
}

fn from_view(subject: &Subject<'_>, members: &[Member<'_>]) -> TokenStream {
    let fields = members.iter().map(|Member { ident, ty, .. }| {
        let from_view = subject.value_of(ty, &quote!(view.#ident));
        quote!(#ident: #from_view)
    });
    let padding = padding(members);
    let read = members.iter().enumerate().map(|(index, member)| {
        let Member { ident, label, ty, .. } = member;
        let part = quote!(inline.part(LAYOUT.offsets[#index], <#ty as __fidl::Layout>::SIZE));
        let read = subject.read(member, &part);
        quote!(#ident: #read.map_err(|error| error.in_field(#label))?)
    });
    let body = quote! {
        let _ = &view;
        Self { #(#fields),* }
    };
    let read = quote! {
        #padding
        Ok(Self { #(#read),* })
    };
    subject.owned(&body, Some(&read))
}

/// Implementation for plain structs: the same in memory as on the wire.
fn plain(subject: &Subject<'_>, members: &[Member<'_>]) -> TokenStream {
    let name = subject.name;
    let constants = constants(subject, members);
    let checks = members.iter().enumerate().map(|(index, member)| {
        let (ident, ty) = (&member.ident, member.spanned_type());
        quote! {
            const _: () = assert!(
                ::core::mem::offset_of!(#name, #ident) == LAYOUT.offsets[#index],
                "a plain struct lies in memory as on the wire: add #[repr(C)]"
            );
            const _: () = assert!(
                <#ty as __fidl::Layout>::VALIDITY.is_any(),
                "any bytes are a value of a plain struct's fields: numbers, and arrays and plain \
                 structs of them"
            );
        }
    });
    let size = quote! {
        const _: () = assert!(
            ::core::mem::size_of::<#name>() == LAYOUT.size && LAYOUT.validity.is_any(),
            "a plain struct has no padding"
        );
    };
    let layout = layout(subject, members);
    let as_wire = quote! {
        #[inline]
        fn as_wire(items: &[Self]) -> ::core::option::Option<&[u8]> {
            __fidl::plain_bytes(items)
        }
    };
    let encode = encode(subject, members, &as_wire);
    let take = take_handles(subject, members);
    let boxed = boxed(subject);
    let decode = subject.decode(
        &quote!(__fidl::Plain<'a, Self>),
        &quote!(Ok(__fidl::Plain::new(inline))),
        None,
    );
    let from_view = subject.owned(&quote!(view.get()), None);
    let boxed_decode = boxed_decode(subject);
    subject.scope(&quote! {
        #constants #(#checks)* #size
        #layout #encode #take #boxed #decode #from_view #boxed_decode
    })
}
