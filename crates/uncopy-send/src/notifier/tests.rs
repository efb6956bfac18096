use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{Binding, MAX_SLOTS, Notification, Objection, Slots};

fn of(tags: &[u64]) -> Slots<u32> {
    let mut slots = Slots::new();
    slots.register(tags).unwrap();
    slots
}

fn posted(slots: &mut Slots<u32>) -> Vec<(u64, u32, Vec<u32>)> {
    std::iter::from_fn(|| slots.next())
        .map(|Notification { tag, result, sequence, releases }| {
            assert_eq!(result, 0);
            (tag, sequence, releases.into_vec())
        })
        .collect()
}

#[test]
fn a_notification_comes_once_when_the_last_send_is_released() {
    let mut slots = of(&[70, 71]);
    let bindings: Vec<_> = (0..3).map(|_| slots.bind(1).unwrap()).collect();
    slots.flush(&[1]).unwrap();
    for (binding, number) in bindings.into_iter().zip(0..) {
        assert_eq!(posted(&mut slots), []);
        slots.release(binding, number);
    }
    assert_eq!(posted(&mut slots), [(71, 0, vec![0, 1, 2])]);
    assert_eq!(posted(&mut slots), []);
}

#[test]
fn a_notifier_that_is_not_flushed_posts_nothing() {
    let mut slots = of(&[7]);
    for number in 0..100 {
        let binding = slots.bind(0).unwrap();
        slots.release(binding, number);
    }
    assert_eq!(posted(&mut slots), []);
    slots.flush(&[0]).unwrap();
    assert_eq!(posted(&mut slots), [(7, 0, (0..100).collect())]);
}

#[test]
fn sends_after_a_flush_belong_to_the_next_notifier() {
    let mut slots = of(&[7]);
    let old = slots.bind(0).unwrap();
    slots.flush(&[0]).unwrap();
    let new = slots.bind(0).unwrap();
    slots.flush(&[0]).unwrap();
    slots.release(new, 2);
    assert_eq!(posted(&mut slots), [(7, 1, vec![2])]);
    slots.release(old, 1);
    assert_eq!(posted(&mut slots), [(7, 0, vec![1])]);
}

#[test]
fn a_notifier_without_sends_posts_at_once() {
    let mut slots = of(&[7, 8]);
    slots.flush(&[0, 1, 0]).unwrap();
    assert_eq!(posted(&mut slots), [(7, 0, vec![]), (8, 0, vec![]), (7, 1, vec![])]);
}

#[test]
fn several_slots_are_flushed_all_or_none() {
    let mut slots = of(&[7, 8]);
    assert_eq!(slots.flush(&[0, 2]), Err(Objection::NoSuchSlot { slots: 2 }));
    assert_eq!(posted(&mut slots), []);
    assert_eq!(slots.bind(2), Err(Objection::NoSuchSlot { slots: 2 }));
    assert_eq!(slots.has(1), Ok(()));
}

#[test]
fn the_sequence_number_wraps() {
    let mut slots = Slots::<u32>::new();
    slots.register_from(&[7], u32::MAX - 1).unwrap();
    slots.flush(&[0, 0, 0]).unwrap();
    let sequences: Vec<u32> = posted(&mut slots).into_iter().map(|(_, s, _)| s).collect();
    assert_eq!(sequences, [u32::MAX - 1, u32::MAX, 0]);
}

#[test]
fn slots_can_be_registered_again_after_they_were_removed() {
    let mut slots = of(&[7, 8]);
    assert_eq!(slots.register(&[9]), Err(Objection::SlotsRegistered));
    let binding = slots.bind(0).unwrap();
    slots.unregister();
    assert_eq!(slots.bind(0), Err(Objection::NoSuchSlot { slots: 0 }));
    slots.register(&[9]).unwrap();
    let fresh = slots.bind(0).unwrap();
    // The old notifier was flushed, and keeps its tag and number.
    slots.release(binding, 1);
    assert_eq!(posted(&mut slots), [(7, 0, vec![1])]);
    slots.flush(&[0]).unwrap();
    slots.release(fresh, 2);
    assert_eq!(posted(&mut slots), [(9, 0, vec![2])]);
}

#[test]
fn no_slots_and_too_many_are_refused() {
    for count in [0, MAX_SLOTS + 1] {
        assert_eq!(
            Slots::<u32>::new().register(&vec![0; count]),
            Err(Objection::SlotCount { most: 1 << 15 })
        );
    }
    assert_eq!(Slots::<u32>::new().register(&vec![0; MAX_SLOTS]), Ok(()));
}

#[test]
fn releases_that_were_not_posted_are_returned_at_the_end() {
    let mut slots = of(&[7, 8]);
    let (a, b, _c) = (slots.bind(0).unwrap(), slots.bind(1).unwrap(), slots.bind(1).unwrap());
    slots.release(a, 1);
    slots.flush(&[0, 1]).unwrap();
    slots.release(b, 2);
    assert_eq!(slots.into_releases(), [1, 2]);
}

/// An action of the caller or the kernel.
#[derive(Debug, Clone)]
enum ModelStep {
    Bind(u32),
    /// Releases one of the outstanding sends, as a notification, an error or a cancellation does.
    Release(usize),
    Flush(Vec<u32>),
    /// Removes all slots, and registers others.
    Register(Vec<u64>),
}

fn steps() -> impl Strategy<Value = Vec<ModelStep>> {
    let step = prop_oneof![
        6 => (0..4u32).prop_map(ModelStep::Bind),
        5 => any::<usize>().prop_map(ModelStep::Release),
        2 => prop::collection::vec(0..4u32, 1..4).prop_map(ModelStep::Flush),
        1 => prop::collection::vec(any::<u64>(), 1..4).prop_map(ModelStep::Register),
    ];
    prop::collection::vec(step, 0..300)
}

/// The simplest model of notifiers: the sends that belong to each (generation of slots, slot, sequence).
#[derive(Default)]
struct Model {
    generation: usize,
    tags: Vec<u64>,
    sequences: Vec<u32>,
    /// Whether a notifier exists in the slot: since the first send or flush.
    exists: Vec<bool>,
    notifiers: BTreeMap<(usize, u32, u32), Expected>,
}

#[derive(Default)]
struct Expected {
    tag: u64,
    outstanding: BTreeSet<u32>,
    released: Vec<u32>,
    is_sealed: bool,
    is_posted: bool,
}

impl Model {
    fn register(&mut self, tags: &[u64], first: u32) {
        for slot in 0..self.tags.len() {
            if self.exists[slot] {
                self.seal(slot as u32);
            }
        }
        self.generation += 1;
        self.tags = tags.to_vec();
        self.sequences = vec![first; tags.len()];
        self.exists = vec![false; tags.len()];
    }

    fn key(&self, slot: u32) -> (usize, u32, u32) {
        (self.generation, slot, self.sequences[slot as usize])
    }

    fn current(&mut self, slot: u32) -> (usize, u32, u32) {
        let key = self.key(slot);
        self.exists[slot as usize] = true;
        self.notifiers.entry(key).or_default().tag = self.tags[slot as usize];
        key
    }

    fn seal(&mut self, slot: u32) {
        let key = self.current(slot);
        self.notifiers.get_mut(&key).unwrap().is_sealed = true;
        let sequence = &mut self.sequences[slot as usize];
        *sequence = sequence.wrapping_add(1);
        self.exists[slot as usize] = false;
    }

    /// Takes the notifications that are due now.
    fn due(&mut self) -> Vec<(u64, u32, Vec<u32>)> {
        let mut due = Vec::new();
        for ((_, _, sequence), expected) in &mut self.notifiers {
            if expected.is_sealed && !expected.is_posted && expected.outstanding.is_empty() {
                expected.is_posted = true;
                due.push((expected.tag, *sequence, expected.released.clone()));
            }
        }
        due
    }
}

proptest! {
    #[test]
    fn behaves_as_the_model(first in prop_oneof![Just(0u32), Just(u32::MAX - 2)], steps in steps()) {
        let mut slots = Slots::<u32>::new();
        let mut model = Model::default();
        slots.register_from(&[1, 2], first).unwrap();
        model.register(&[1, 2], first);
        let mut outstanding: Vec<(Binding, u32, (usize, u32, u32))> = Vec::new();
        let mut next_send = 0u32;
        for step in steps {
            match step {
                ModelStep::Bind(slot) => match slots.bind(slot) {
                    Ok(binding) => {
                        let key = model.current(slot);
                        model.notifiers.get_mut(&key).unwrap().outstanding.insert(next_send);
                        outstanding.push((binding, next_send, key));
                        next_send += 1;
                    }
                    Err(_) => prop_assert!(slot as usize >= model.tags.len()),
                },
                ModelStep::Release(_) if outstanding.is_empty() => {}
                ModelStep::Release(which) => {
                    let (binding, send, key) = outstanding.remove(which % outstanding.len());
                    let expected = model.notifiers.get_mut(&key).unwrap();
                    prop_assert!(expected.outstanding.remove(&send));
                    expected.released.push(send);
                    slots.release(binding, send);
                }
                ModelStep::Flush(which) => match slots.flush(&which) {
                    Ok(()) => which.iter().for_each(|slot| model.seal(*slot)),
                    Err(_) => prop_assert!(which.iter().any(|s| *s as usize >= model.tags.len())),
                },
                ModelStep::Register(tags) => {
                    slots.unregister();
                    slots.register_from(&tags, first).unwrap();
                    model.register(&tags, first);
                }
            }
            let (mut found, mut due) = (posted(&mut slots), model.due());
            found.sort();
            due.sort();
            prop_assert_eq!(found, due);
        }
        // At the end exactly the releases that were not posted are returned.
        let mut held: Vec<u32> = slots.into_releases();
        held.sort_unstable();
        let unposted = model.notifiers.values().filter(|expected| !expected.is_posted);
        let mut expected: Vec<u32> = unposted.flat_map(|e| e.released.clone()).collect();
        expected.sort_unstable();
        prop_assert_eq!(held, expected);
    }
}
