//! Uses of flatbuffers and capnp without generated code: a table with one field, and a message
//! that is bytes or text.

use std::hint::black_box;

use anyhow::{Result, bail};
use capnp::message::{Builder, HeapAllocator, Reader, ReaderOptions};
use capnp::serialize::BufferSegments;
use flatbuffers::FlatBufferBuilder;

use crate::Errand;

/// Offset of a table's first field.
const FIRST: flatbuffers::VOffsetT = 4;

impl Errand {
    /// Returns `false` for another peer.
    pub fn bytes(&self, bytes: &[u8]) -> Result<bool> {
        match self.peer.as_str() {
            "flatbuffers" => self
                .flatbuffers(|builder| builder.create_vector(black_box(bytes)).as_union_value())?,
            "capnp" => {
                let build = |message: &mut Builder<HeapAllocator>| {
                    message.set_root::<capnp::data::Owned>(black_box(bytes))
                };
                if !self.is_decoding {
                    return self.capnp(build).map(|()| true);
                }
                self.capnp_decoded(build, |reader| {
                    black_box(reader.get_root::<capnp::data::Reader<'_>>()?);
                    Ok(())
                })?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns `false` for another peer.
    pub fn text(&self, text: &str) -> Result<bool> {
        match self.peer.as_str() {
            "flatbuffers" => {
                self.flatbuffers(|builder| builder.create_string(black_box(text)).as_union_value())?
            }
            "capnp" => {
                let build = |message: &mut Builder<HeapAllocator>| {
                    message.set_root::<capnp::text::Owned>(black_box(text))
                };
                if !self.is_decoding {
                    return self.capnp(build).map(|()| true);
                }
                self.capnp_decoded(build, |reader| {
                    black_box(reader.get_root::<capnp::text::Reader<'_>>()?.to_str()?);
                    Ok(())
                })?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn flatbuffers(
        &self,
        body: impl for<'b> Fn(
            &mut FlatBufferBuilder<'b>,
        ) -> flatbuffers::WIPOffset<flatbuffers::UnionWIPOffset>,
    ) -> Result<()> {
        if self.is_decoding {
            bail!("flatbuffers decodes by generated code only");
        }
        let mut builder = FlatBufferBuilder::with_capacity(1 << 17);
        self.measure(|| {
            builder.reset();
            let body = body(&mut builder);
            let table = builder.start_table();
            builder.push_slot_always(FIRST, body);
            let table = builder.end_table(table);
            builder.finish(table, None);
            black_box(builder.finished_data());
            Ok(())
        })
    }

    fn capnp(
        &self,
        build: impl Fn(&mut Builder<HeapAllocator>) -> capnp::Result<()>,
    ) -> Result<()> {
        self.measure(|| {
            let allocator = HeapAllocator::new().first_segment_words(1 << 14);
            let mut message = Builder::new(allocator);
            build(&mut message)?;
            black_box(message.get_segments_for_output());
            Ok(())
        })
    }

    fn capnp_decoded(
        &self,
        build: impl Fn(&mut Builder<HeapAllocator>) -> capnp::Result<()>,
        look: impl Fn(&Reader<BufferSegments<&[u8]>>) -> Result<()>,
    ) -> Result<()> {
        let mut message = Builder::new_default();
        build(&mut message)?;
        let bytes = capnp::serialize::write_message_to_words(&message);
        self.measure(|| {
            let options = ReaderOptions::new();
            let segments = BufferSegments::new(black_box(&*bytes), options)?;
            look(&Reader::new(segments, options))
        })
    }
}
