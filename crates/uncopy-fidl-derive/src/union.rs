//! Unions: one of several members, by ordinal.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{Attribute, DataEnum, Error, Fields, Result, Variant};

use crate::attributes::MemberAttributes;
use crate::model::{LayoutOf, Member, Subject, check_ordinals, docs_of, label_of};

/// Kind of a union's variant.
struct Members<'a> {
    /// A variant with a payload.
    payloads: Vec<Member<'a>>,
    /// A variant without a payload, which is an empty struct on the wire.
    units: Vec<Unit<'a>>,
    /// The variant for unknown members.
    unknown: Option<&'a Ident>,
}

struct Unit<'a> {
    ident: &'a Ident,
    ordinal: u64,
    docs: Vec<&'a Attribute>,
}

pub(crate) fn expand(subject: &Subject<'_>, data: &DataEnum) -> Result<TokenStream> {
    let attributes = &subject.attributes;
    subject.refuse("table", attributes.table, "a union")?;
    subject.refuse("plain", attributes.plain, "a union")?;
    subject.refuse("bits", attributes.bits.as_ref().map(|bits| bits.span), "a union")?;
    let is_flexible = "a union: mark the variant that carries unknown members as `unknown`";
    subject.refuse("flexible", attributes.flexible, is_flexible)?;
    let members = members(subject, data)?;
    let constants = subject.constants(&members.payloads);
    let layout = subject.layout(&LayoutOf {
        size: quote!(__fidl::UNION_SIZE),
        align: quote!(8),
        is_flat: quote!(false),
        validity: quote!(__fidl::Validity::Checked),
    });
    let encode = encode(subject, &members);
    let take = take_handles(subject, &members);
    let optional = optional(subject);
    if subject.borrows() {
        return Ok(subject.scope(&quote!(#constants #layout #encode #take #optional)));
    }
    let view = view(subject, &members);
    let decode = decode(subject, &members);
    let from_view = from_view(subject, &members);
    let scope = subject.scope(&quote! {
        #constants #layout #encode #take #optional #decode #from_view
    });
    Ok(quote!(#view #scope))
}

fn members<'a>(subject: &Subject<'_>, data: &'a DataEnum) -> Result<Members<'a>> {
    let mut members = Members { payloads: Vec::new(), units: Vec::new(), unknown: None };
    let mut ordinals = Vec::new();
    if let Some(variant) = data.variants.iter().find(|variant| variant.discriminant.is_some()) {
        let message = "an enum of numbers says which they are: add `#[repr(u32)]`; a union's \
                       members have `#[fidl(ordinal = …)]`";
        return Err(Error::new_spanned(variant, message));
    }
    for (index, variant) in data.variants.iter().enumerate() {
        let attributes = MemberAttributes::parse(&variant.attrs)?;
        if let Some(span) = attributes.unknown {
            if members.unknown.is_some() {
                return Err(Error::new(span, "one variant carries all unknown members"));
            }
            members.unknown = Some(carrier(variant)?);
            continue;
        }
        ordinals.push((variant.ident.span(), attributes.ordinal));
        match &variant.fields {
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
                let ty = &fields.unnamed[0].ty;
                members.payloads.push(Member::new(index, &variant.ident, ty, &variant.attrs)?);
            }
            Fields::Unit => {
                subject.refuse("a constraint", attributes.constraint.span(), "no payload")?;
                let ordinal = attributes.ordinal.map_or(0, |ordinal| ordinal.number);
                let docs = docs_of(&variant.attrs);
                members.units.push(Unit { ident: &variant.ident, ordinal, docs });
            }
            fields => {
                let message = "a union's member has one payload: name a struct for several";
                return Err(Error::new_spanned(fields, message));
            }
        }
    }
    check_ordinals(&ordinals, &subject.attributes.reserved, u64::MAX)?;
    if members.payloads.is_empty() && members.unknown.is_none() {
        let message = "no member has a payload: an enum is enough, with `#[repr(u32)]`, `A = 1`";
        return Err(Error::new_spanned(subject.name, message));
    }
    Ok(members)
}

/// Checks the shape of the variant for unknown members. Its type is checked by its use.
fn carrier(variant: &Variant) -> Result<&Ident> {
    match &variant.fields {
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => Ok(&variant.ident),
        _ => {
            let message = format!("it carries what came: {}(uncopy_fidl::Unknown)", variant.ident);
            Err(Error::new_spanned(variant, message))
        }
    }
}

fn ordinal(member: &Member<'_>) -> u64 {
    member.attributes.ordinal.map_or(0, |ordinal| ordinal.number)
}

fn encode(subject: &Subject<'_>, members: &Members<'_>) -> TokenStream {
    let ordinals = members.payloads.iter().map(|member| {
        let (ident, ordinal) = (&member.ident, ordinal(member));
        quote!(Self::#ident(_) => #ordinal,)
    });
    let unit_ordinals =
        members.units.iter().map(|Unit { ident, ordinal, .. }| quote!(Self::#ident => #ordinal,));
    let known = members.payloads.iter().map(ordinal);
    let known: Vec<u64> = known.chain(members.units.iter().map(|unit| unit.ordinal)).collect();
    let carried = members.unknown.map(
        |ident| quote!(Self::#ident(unknown) => __fidl::unknown_ordinal(unknown, &[#(#known),*])?,),
    );
    let inline = quote! {
        let ordinal: u64 = match self { #(#ordinals)* #(#unit_ordinals)* #carried };
        inline[..8].copy_from_slice(&ordinal.to_le_bytes());
        Ok(())
    };
    let payloads = members.payloads.iter().map(|Member { ident, label, ty, constant, .. }| {
        quote! {
            Self::#ident(payload) => {
                __fidl::encode_envelope::<#ty, __O>(payload, out, at, #constant, depth)
                    .map_err(|error| error.in_field(#label))
            }
        }
    });
    let units = members.units.iter().map(|Unit { ident, .. }| {
        quote! {
            Self::#ident => __fidl::encode_envelope::<__fidl::Empty, __O>(
                &__fidl::Empty {},
                out,
                at,
                __fidl::NoConstraint,
                depth,
            ),
        }
    });
    let carried = members.unknown.map(
        |ident| quote!(Self::#ident(unknown) => __fidl::encode_unknown(unknown, out, at, depth),),
    );
    let rest = quote! {
        let at = at + 8;
        match self { #(#payloads)* #(#units)* #carried }
    };
    subject.encode(&inline, &rest, &TokenStream::new())
}

fn take_handles(subject: &Subject<'_>, members: &Members<'_>) -> TokenStream {
    let handle = subject.handle();
    let payloads = members.payloads.iter().map(|Member { ident, label, ty, constant, .. }| {
        quote! {
            Self::#ident(payload) => {
                <#ty as __fidl::TakeHandles<#handle>>::take_handles(payload, leaving, #constant)
                    .map_err(|error| error.in_field(#label))
            }
        }
    });
    let others =
        (!members.units.is_empty() || members.unknown.is_some()).then(|| quote!(_ => Ok(()),));
    subject.take_handles(&quote!(match self { #(#payloads)* #others }))
}

/// A union can be optional directly, and in a box, which recursive ones need.
fn optional(subject: &Subject<'_>) -> TokenStream {
    let own = subject.own();
    let boxed = quote!(::std::boxed::Box<#own>);
    let sizes = quote! {
        const OPTIONAL_SIZE: usize = __fidl::UNION_SIZE;
        const OPTIONAL_ALIGN: usize = 8;
    };
    let none = TokenStream::new();
    [own, boxed]
        .iter()
        .flat_map(|of| {
            [
                subject.implement(&quote!(__fidl::Optional), of, &sizes),
                subject.implement(&quote!(__fidl::EncodeOptional), of, &none),
            ]
        })
        .collect()
}

fn view(subject: &Subject<'_>, members: &Members<'_>) -> TokenStream {
    let (view, name, visibility) = (&subject.view, subject.name, &subject.input.vis);
    let about = format!("A [`{name}`] in a message.");
    let payloads = members.payloads.iter().map(|Member { ident, ty, docs, .. }| {
        let docs = subject.view_docs(docs);
        quote! {
            #docs
            #ident(<#ty as ::uncopy_fidl::derived::Decode>::View<'a>),
        }
    });
    let units = members.units.iter().map(|Unit { ident, docs, .. }| {
        let docs = subject.view_docs(docs);
        quote!(#docs #ident,)
    });
    let unknown = members.unknown.map(|ident| {
        quote! {
            /// An unknown member.
            #ident(::uncopy_fidl::UnknownView<'a>),
        }
    });
    let head = subject.view_head(&about);
    quote! {
        #head
        #visibility enum #view<'a> { #(#payloads)* #(#units)* #unknown }
    }
}

fn decode(subject: &Subject<'_>, members: &Members<'_>) -> TokenStream {
    let (view, name) = (&subject.view, subject.name);
    let payloads = members.payloads.iter().map(|member| {
        let Member { ident, label, ty, constant, .. } = member;
        let ordinal = ordinal(member);
        quote! {
            #ordinal => #view::#ident(
                envelope
                    .payload::<#ty>(decoder, #constant, depth)
                    .map_err(|error| error.in_field(#label))?,
            ),
        }
    });
    let units = members.units.iter().map(|Unit { ident, ordinal, .. }| {
        quote! {
            #ordinal => {
                envelope.payload::<__fidl::Empty>(decoder, __fidl::NoConstraint, depth)?;
                #view::#ident
            }
        }
    });
    let other = match members.unknown {
        Some(ident) => quote! {
            _ => #view::#ident(__fidl::UnknownView::new(ordinal, envelope.skip(decoder, depth)?)),
        },
        None => quote! {
            _ => return Err(inline.breaks(__fidl::Rule::UnknownUnionMember { ordinal })),
        },
    };
    let decode_required = subject.decode(
        &quote!(#view<'a>),
        &quote! {
            let view = <Self as __fidl::DecodeOptional>::decode_optional(
                inline,
                decoder,
                __fidl::NoConstraint,
                depth,
            )?;
            view.ok_or_else(|| inline.breaks(__fidl::Rule::RequiredIsAbsent))
        },
        Some(&print(members)),
    );
    let own = decode_optional(
        &quote!(#view<'a>),
        &quote! {
            let _ = constraint;
            let Some((ordinal, envelope)) = __fidl::decode_union(inline)? else {
                return Ok(None);
            };
            Ok(Some(match ordinal { #(#payloads)* #(#units)* #other }))
        },
    );
    let boxed = decode_optional(
        &quote!(__fidl::Boxed<'a, #name>),
        &quote!(__fidl::Boxed::decode_optional(inline, decoder, constraint, depth)),
    );
    let which = quote!(__fidl::DecodeOptional);
    let own = subject.implement(&which, &quote!(#name), &own);
    let boxed = subject.implement(&which, &quote!(::std::boxed::Box<#name>), &boxed);
    quote!(#decode_required #own #boxed)
}

fn from_view(subject: &Subject<'_>, members: &Members<'_>) -> TokenStream {
    let view = &subject.view;
    let payloads = members.payloads.iter().map(|Member { ident, ty, .. }| {
        let from_view = subject.value_of(ty, &quote!(payload));
        quote! {
            #view::#ident(payload) => Self::#ident(
                #from_view,
            ),
        }
    });
    let units =
        members.units.iter().map(|Unit { ident, .. }| quote!(#view::#ident => Self::#ident,));
    let carried = members
        .unknown
        .map(|ident| quote!(#view::#ident(unknown) => Self::#ident(unknown.into()),));
    let body = quote!(match view { #(#payloads)* #(#units)* #carried });
    let payloads = members.payloads.iter().map(|member| {
        let (ident, ordinal) = (&member.ident, ordinal(member));
        let read = subject.read_payload(member, &quote!(depth));
        quote!(#ordinal => Self::#ident(#read),)
    });
    let units = members.units.iter().map(|Unit { ident, ordinal, .. }| {
        quote! {
            #ordinal => {
                envelope.payload::<__fidl::Empty>(decoder, __fidl::NoConstraint, depth)?;
                Self::#ident
            }
        }
    });
    let other = match members.unknown {
        Some(ident) => quote! {
            _ => {
                let payload = envelope.skip(decoder, depth)?;
                Self::#ident(__fidl::UnknownView::new(ordinal, payload).into())
            }
        },
        None => quote! {
            _ => return Err(inline.breaks(__fidl::Rule::UnknownUnionMember { ordinal })),
        },
    };
    let read = quote! {
        let Some((ordinal, envelope)) = __fidl::decode_union(inline)? else {
            return Err(inline.breaks(__fidl::Rule::RequiredIsAbsent));
        };
        Ok(match ordinal { #(#payloads)* #(#units)* #other })
    };
    subject.owned(&body, Some(&read))
}

/// Prints a union like its view.
fn print(members: &Members<'_>) -> TokenStream {
    let payloads = members.payloads.iter().map(|member| {
        let (Member { label, ty, constant, .. }, ordinal) = (member, ordinal(member));
        quote! {
            #ordinal => {
                let payload =
                    __fidl::DebugOnce::new(|f| envelope.print::<#ty>(decoder, #constant, depth, f));
                f.debug_tuple(#label).field(&payload).finish()
            }
        }
    });
    let units = members.units.iter().map(|Unit { ident, ordinal, .. }| {
        let label = label_of(ident);
        quote! {
            #ordinal => {
                let empty = envelope.payload::<__fidl::Empty>(decoder, __fidl::NoConstraint, depth);
                empty.map_err(|_| ::core::fmt::Error)?;
                f.write_str(#label)
            }
        }
    });
    let other = match members.unknown {
        Some(ident) => {
            let label = label_of(ident);
            quote! {
                _ => {
                    let payload = envelope.skip(decoder, depth).map_err(|_| ::core::fmt::Error)?;
                    let view = __fidl::UnknownView::new(ordinal, payload);
                    f.debug_tuple(#label).field(&view).finish()
                }
            }
        }
        None => quote!(_ => Err(::core::fmt::Error),),
    };
    quote! {
        let found = __fidl::decode_union(inline).ok().flatten();
        let (ordinal, envelope) = found.ok_or(::core::fmt::Error)?;
        match ordinal { #(#payloads)* #(#units)* #other }
    }
}

/// Generates the function of `DecodeOptional`.
fn decode_optional(view: &TokenStream, body: &TokenStream) -> TokenStream {
    quote! {
        #[inline]
        fn decode_optional<'a>(
            inline: __fidl::Inline<'a>,
            decoder: &mut __fidl::Decoder<'a, '_>,
            constraint: __fidl::NoConstraint,
            depth: __fidl::Depth,
        ) -> __fidl::Result<::core::option::Option<#view>> {
            #body
        }

        #[inline(always)]
        fn present<'a>(
            inline: __fidl::Inline<'a>,
            _: &mut __fidl::Decoder<'a, '_>,
            depth: __fidl::Depth,
        ) -> __fidl::Result<::core::option::Option<(__fidl::Inline<'a>, __fidl::Depth)>> {
            __fidl::open_union(inline, depth)
        }
    }
}
