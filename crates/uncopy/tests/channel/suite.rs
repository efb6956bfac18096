//! Tests that run over every transport.

use testbed::Transport;

/// The table of tests; each is a function of the transport.
macro_rules! suite {
    ($($name:ident: $over:expr),* $(,)?) => {$(
        mod $name {
            use super::*;

            tests! { $over;
            batches: [
                a_batch_arrives_as_separate_messages,
                a_bad_handle_in_the_middle_of_a_batch_fails_only_its_message,
                batches_with_broken_rules_or_a_closed_peer_send_nothing,
            ],
            calls: [
                the_transaction_id_replaces_only_the_first_four_bytes_of_the_message,
                a_call_leaves_what_is_behind_its_answer_to_the_next_wait,
                a_call_that_spins_is_answered_or_times_out,
                a_call_with_dispositions_is_answered_and_keeps_duplicated_handles,
                a_call_with_a_disposition_that_fails_sends_nothing,
                several_callers_each_get_their_own_answer,
                a_deadline_in_the_past_still_sends_and_a_late_answer_is_queued,
                a_request_of_the_other_end_is_no_answer_to_a_later_call,
                an_end_that_moved_gives_no_transaction_id_again,
                a_call_checks_in_zircons_order,
                a_call_checks_the_size_before_the_handles,
                a_closed_peer_and_a_revoked_handle_end_a_call,
                only_ids_with_the_high_bit_of_a_waiting_call_are_answers,
                an_answer_arrives_while_the_queue_is_full,
            ],
            messages: [
                regions_are_gathered_in_order_without_padding,
                a_message_at_a_limit_is_sent_and_one_past_it_is_refused,
                regions_of_more_or_fewer_bytes_than_they_say_are_refused,
                a_write_checks_in_zircons_order,
                a_failing_fill_sends_nothing_and_consumes_the_handles,
                a_panicking_fill_leaves_both_ends_unchanged,
                reading_an_empty_queue_returns_should_wait_or_peer_closed,
                reading_needs_the_right,
                messages_are_received_one_by_one_up_to_the_end,
                a_message_that_does_not_fit_stays_or_is_discarded,
                reads_spread_over_regions_and_split_into_parts,
                closing_an_end_closes_the_handles_in_its_queue,
            ],
            waiting: [
                readable_is_set_exactly_while_the_queue_is_not_empty,
                a_program_can_change_only_user_signals,
                the_last_change_of_a_signal_counts_whichever_end_made_it,
                a_wait_ends_with_its_signal_its_handle_or_its_deadline,
                a_wait_that_spins_ends_as_one_that_sleeps,
                two_threads_that_spin_at_two_ends_both_see_their_messages,
                wait_many_waits_for_any_and_reports_all,
                a_binding_fires_once_immediately_or_at_the_edge,
                ports_return_packets_first_in_first_out,
                wait_async_checks_in_zircons_order,
                cancel_removes_waits_and_queued_packets,
                a_binding_ends_with_its_handle_but_its_packet_stays,
                a_binding_ends_when_its_handle_is_read_at_the_other_end,
                a_closed_port_releases_its_observers,
                a_descriptor_polls_readable_while_its_signals_are_set,
                a_descriptor_of_an_end_that_writes_no_more_is_not_readable,
                a_descriptor_of_a_full_end_is_readable_for_its_signals_alone,
                a_descriptor_whose_handle_is_gone_stays_readable,
            ],
            reports: [
                a_wait_for_several_signals_reports_all_that_are_set,
                a_first_wait_reports_signals_behind_the_one_it_waits_for,
                a_wait_reports_a_closed_peer_behind_unread_messages,
                a_wait_for_several_signals_of_an_event_reports_all,
                a_woken_wait_reports_all_signals_that_arrived,
                several_waits_on_one_object_are_notified_newest_first,
                a_wait_that_is_woken_for_nothing_keeps_its_place,
                a_busy_port_receives_from_the_other_end,
                a_read_at_a_full_end_wakes_waits_for_what_is_behind,
            ],
            fifos: [
                a_fifo_takes_whole_elements_and_returns_how_many,
                a_full_fifo_loses_nothing_and_becomes_writable_after_a_read,
                a_fifo_needs_the_rights_to_read_and_write,
            ],
            sockets: [
                a_stream_keeps_no_boundaries,
                a_full_stream_loses_nothing_and_becomes_writable_after_a_read,
                a_datagram_is_read_whole_or_cut_off,
                a_datagram_is_sent_whole_or_not_at_all,
                disabled_writing_is_signaled_at_both_ends,
                writes_of_several_threads_are_not_interleaved,
                what_was_written_before_the_end_arrives_and_nothing_else,
            ],
            events: [
                an_event_has_its_own_signal_and_user_signals,
                an_event_pair_signals_the_other_end_and_reports_when_it_is_closed,
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
                    crate::channel::$module::$test($over);
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
