//! Every rule that holds wherever the ends are, over every transport.

use testbed::Transport;

/// The table: tests, each a function that takes what lies between the ends.
macro_rules! suite {
    ($($name:ident: $over:expr),* $(,)?) => {$(
        mod $name {
            use super::*;

            tests! { $over;
            batches: [
                a_batch_is_its_messages_one_by_one,
                a_bad_handle_in_the_middle_takes_its_own_message_with_it,
                broken_rules_and_a_closed_peer_send_nothing,
            ],
            calls: [
                the_id_goes_over_the_first_four_bytes_of_the_message_alone,
                a_call_with_dispositions_is_answered_and_keeps_what_it_duplicates,
                a_call_with_a_disposition_that_fails_sends_nothing,
                several_callers_get_each_their_own_answer,
                a_deadline_in_the_past_still_sends_and_a_late_answer_is_queued,
                checks_of_a_call_come_in_zircons_order,
                a_short_handle_check_comes_after_the_size,
                a_closed_peer_and_a_revoked_handle_end_a_call,
                only_ids_with_the_high_bit_that_somebody_waits_for_are_answers,
                an_answer_passes_a_full_queue_of_what_nobody_reads,
            ],
            messages: [
                regions_are_joined_in_order_without_padding,
                limits_hold_at_their_value_and_break_one_past_it,
                checks_of_a_write_come_in_zircons_order,
                a_failing_fill_sends_nothing_and_consumes_the_handles,
                a_panicking_fill_leaves_both_ends_as_they_were,
                an_empty_queue_says_wait_and_a_lonely_one_says_closed,
                reading_needs_the_right,
                a_message_that_does_not_fit_stays_or_is_discarded,
                reads_spread_over_regions_and_split_into_parts,
                a_closed_queue_closes_what_is_in_it,
            ],
            waiting: [
                readable_is_set_exactly_while_the_queue_holds_something,
                user_signals_are_the_programs_and_others_are_not,
                a_sleeper_wakes_for_its_signal_for_the_end_of_its_handle_and_for_the_deadline,
                wait_many_waits_for_any_and_reports_all,
                a_binding_fires_once_at_once_or_at_the_edge,
                ports_are_first_in_first_out_and_mix_packets,
                checks_of_wait_async_come_in_zircons_order,
                cancel_takes_back_what_waits_and_what_is_queued,
                a_binding_ends_with_its_handle_and_stays_behind_when_it_has_fired,
                a_binding_ends_when_its_handle_is_read_at_the_far_side,
                a_closed_port_keeps_nothing,
                a_descriptor_polls_as_the_signals_are,
                a_descriptor_whose_handle_is_gone_stays_readable,
            ],
            reports: [
                a_wait_for_several_signals_reports_all_that_are_set,
                a_first_wait_reports_what_lies_behind_what_it_waits_for,
                a_wait_reports_the_end_behind_what_nobody_read,
                a_wait_for_several_signals_of_an_event_reports_all,
                a_sleeper_reports_what_came_beside_what_woke_it,
                several_waits_on_one_object_are_told_newest_first,
                a_wait_that_looks_again_keeps_its_place,
                a_busy_port_hears_of_the_other_end,
            ],
            fifos: [
                a_fifo_takes_whole_elements_and_says_how_many,
                a_full_fifo_loses_nothing_and_is_writable_when_it_was_read,
                a_fifo_is_read_and_written_with_the_rights_alone,
            ],
            sockets: [
                a_stream_runs_together,
                a_full_stream_loses_nothing_and_is_writable_when_it_was_read,
                a_datagram_is_whole_or_cut_off,
                a_datagram_goes_whole_or_not_at_all,
                disabled_writing_is_told_to_both_ends,
            ],
            events: [
                an_event_has_its_own_signals_and_the_programs,
                an_event_pair_signals_the_other_end_and_tells_of_its_own,
            ],
            }
        }
    )*};
}

macro_rules! tests {
    ($over:expr; $($module:ident: [$($test:ident),* $(,)?],)*) => {$(
        mod $module {
            use super::*;

            $(
                #[test]
                fn $test() {
                    crate::$module::$test($over);
                }
            )*
        }
    )*};
}

suite! {
    local: Transport::Local,
    socket: Transport::Socket,
    moved: Transport::Moved,
}
