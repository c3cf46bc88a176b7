"""What notices each mutant on each change, where the first schedules do not: a seed, or a test of its own."""

SEEDS = {
    "writes without resourceVersion": 24,
    "answers about claims long gone count": 24,
    "claims in use are freed": 33,
    "refusals slow writes down": 36,
    "everybody leads": 5,
    "budgets allow everything": 35,
    "several pods move at once": 10,
    "gates go before kube-scheduler has seen what was given": 1,
    "only the decided devices are held": 6,
    "gates go without a node": 5,
}
"""Schedules that have noticed a mutant, to be tried first: any of the others will do, but takes longer"""

_GANGS = "tests/unit/control/gangs/test_planner.py::"
_WRITES = "tests/unit/control/gangs/test_handler.py::"

_REQUESTS = "tests/unit/control/relocation/test_eviction_requests.py::"
_EXTENDED = "tests/whole/end_to_end/test_extended_resources.py::"
_ROOM = "tests/unit/app/test_making_room.py::"
TESTS: dict[str, str] = {
    "a new process holds no node": _EXTENDED + "test_a_process_that_starts_later_holds_the_node_as_well",
    "announcements count without the finalizer": "tests/unit/cluster/test_writer.py::"
    "test_an_announcement_that_does_not_suffice_is_replaced[somebody removed the finalizer]",
    "all allocations of announced claims are ours": "tests/whole/coexistence/test_giving_way.py::"
    "test_an_allocation_of_others_is_not_freed_although_no_pod_names_it[announced]",
    "writes that have not begun are taken for unanswered": "tests/unit/control/test_settler.py::"
    "test_a_write_that_has_not_begun_is_not_taken_for_one_without_an_answer",
    "batches ignore the room of nodes": "tests/unit/control/test_batch.py::"
    "test_pods_of_one_template_go_on_when_a_node_has_devices_but_no_cpu_left",
    "held room is for everybody": "tests/unit/state/test_nominations.py::"
    "test_partitions_of_a_nominated_device_are_not_free_for_others",
    "everybody may preempt": "tests/unit/control/relocation/test_evictor.py::test_no_class_means_nobody",
    "pods of others are evicted": _ROOM + "test_only_pods_whose_devices_we_allocated_leave",
    "whole gangs are evicted": _ROOM + "test_a_gang_keeps_its_minimum_and_leaves_whole_only_as_advice",
    "gates go before pods name their claims": "tests/whole/end_to_end/test_pods.py::"
    "test_a_claim_is_allocated_before_its_pod_names_it_and_the_gate_waits_for_the_name",
    "plans outlive what they rest on": "tests/unit/control/relocation/test_ground.py::"
    "test_only_the_budgets_of_those_who_leave_count[fewer]",
    "plans outlive what the pod must mind": "tests/unit/control/relocation/test_ground.py::"
    "test_volumes_and_pods_elsewhere_count_if_the_pod_minds_them[near]",
    "a new leader holds nothing": "tests/unit/control/test_held_room.py::"
    "test_the_next_leader_holds_the_same_room_until_the_same_deadline",
    "a new leader leaves groups half gone": "tests/whole/preemption/test_preempting.py::"
    "test_the_next_leader_evicts_the_rest_of_a_group_that_leaves_as_a_whole",
    "gates go as soon as a pod has a seat": _GANGS
    + "test_one_seat_of_two_asks_for_the_other_and_may_be_given_back",
    "gangs keep what they have": _GANGS + "test_seats_are_given_back_when_pods_are_missing",
    "a gang ends with its first gate": _GANGS
    + "test_after_the_first_gate_the_others_go_even_if_pods_are_missing",
    "pods of gangs are decided alone": _GANGS + "test_gated_pods_of_gangs_are_served_with_their_gang",
    "the members that run choose no domain": _GANGS + "test_members_that_run_say_where_the_domain_is",
    "nodes of pods are not recorded": _WRITES + "test_the_node_of_a_pod_is_recorded_for_a_successor",
    "unanswered patches of pods may arrive": _WRITES
    + "test_an_unanswered_removal_of_a_gate_is_made_impossible_before_anything_else_is_done",
    "give-backs of a predecessor are not fenced": "tests/unit/control/test_fence.py::"
    "test_a_gang_that_a_predecessor_may_be_giving_back_is_fenced_off",
    "changes wake nobody": "tests/unit/control/test_loop.py::"
    "test_news_of_a_class_wakes_those_who_want_it_alone",
    "who was just refused does not wait yet": "tests/unit/control/test_loop.py::"
    "test_a_change_between_a_refusal_and_the_rest_of_its_turn_brings_one_turn_more[a new node]",
    "searches hide what changes meanwhile": "tests/unit/control/test_loop.py::"
    "test_a_change_during_a_search_that_is_refused_by_the_state_before_brings_one_turn_more[a new node]",
    "changes of claims do not wake gangs": "tests/unit/control/gangs/test_handler.py::"
    "test_a_claim_of_a_member_queues_its_gang",
    "pods are not pinned": "tests/whole/end_to_end/test_gangs.py::"
    "test_members_without_claims_are_pinned_to_their_node",
    "unanswered writes are forgotten": "tests/unit/control/test_settler.py::"
    "test_a_write_without_an_answer_is_resolved_by_reading[applied: held]",
    "old lists are believed": "tests/unit/cluster/test_watch.py::"
    "test_a_list_that_is_older_than_what_was_seen_is_asked_for_again",
    "plans of a former leader raise alarms": "tests/unit/control/test_audit.py::"
    "test_what_a_former_leader_still_assumes_raises_no_alarm_unless_it_was_written[False]",
    "eviction requests stay": _REQUESTS + "test_what_an_earlier_process_asked_for_is_withdrawn",
    "a leader in between is forgotten": _REQUESTS
    + "test_who_leads_again_withdraws_what_the_leader_in_between_asked_for",
    "annotations prolong what is held": _EXTENDED
    + "test_who_writes_the_annotation_again_does_not_prolong_what_is_held",
    "devices that no longer suit are handed over": _EXTENDED
    + "test_a_pod_whose_device_no_longer_suits_before_its_gate_gets_another_node[change0]",
    "late writes are not fenced": "tests/unit/control/test_settler.py::"
    "test_a_write_without_an_answer_is_resolved_by_reading[not applied: made impossible, then free]",
    "a listing drops nothing": "tests/unit/state/test_store.py::test_objects_that_are_not_listed_are_dropped",
    "old versions count": "tests/unit/state/test_store.py::test_an_older_version_of_a_claim_is_ignored",
    "rewound events count": "tests/unit/cluster/test_events.py::"
    "test_what_is_no_change_leaves_the_cursor_where_it_is[an earlier version]",
    "500 means not applied": "tests/unit/cluster/test_client.py::"
    "test_a_status_says_what_to_do_next[500-Retry-Undecided]",
    "a claim is its name": "tests/unit/state/test_store.py::test_a_recreated_claim_does_not_inherit_holds",
    "writes outlast the lease": "tests/unit/ha/test_campaign.py::"
    "test_a_write_starts_only_if_the_lease_outlasts_it[it may outlast the lease]",
}
"""Tests that notice what schedules meet in one of hundreds, if at all"""

BY_HAND = frozenset(
    {
        "announced claims are not fenced off",
        "freed plans wake nobody",
        "gated pods are left to kube-scheduler",
        "removals of gates are not fenced off at the start",
        "resolved writes wake nobody",
        "nothing is fenced off at the start",
        "standby pictures are believed",
    }
)
"""The same, played step by step in `test_by_hand`"""
