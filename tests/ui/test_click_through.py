"""The whole clean-up in a browser: connection, form, approval, report. Its pictures are those of the docs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest

from tests.demo.offsets import committed_offsets
from tests.demo.workload import LEFT_BY, LEFT_TOPIC, PRUNABLE
from tests.lab.workload.groups import list_groups
from tests.ui import pages
from tests.ui.fleet import DOWN, LIVE, PREVIEWS, PROTECTED, STAGING, without_demo
from tests.ui.scene import CLEANUP, CLEANUP_FLEET, KAFKA_PASSWORD, KAFKA_USER, MAILS, SNAPSHOT_FLEET, Scene

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(1800)]
KEEP_ALIVE, PRUNE = "keep_sleepers_alive", "prune_abandoned_topics"
SPARED = "search.ranking"


def test_a_connection_is_made_by_its_form_and_tested_by_its_button(page: Page, scene: Scene) -> None:
    form = pages.open_new_connection(page, "kafka_prod", "Kafka consumer groups")
    secret = form.locator("input[name=password]")
    assert secret.get_attribute("type") == "password"
    form.locator("input[name=host]").fill(scene.cluster.sasl_bootstrap)
    form.locator("input[name=login]").fill(KAFKA_USER)
    secret.fill(KAFKA_PASSWORD)
    form.locator("input[name=port]").fill("9092")
    pages.picture(page, "connection-form")
    pages.open_section(form, "Extra Fields")
    pages.choose(form, "security_protocol", "SASL_PLAINTEXT")
    pages.choose(form, "sasl_mechanism", "PLAIN")
    assert form.locator("input[name=element_ssl_key_password]").get_attribute("type") == "password"
    pages.picture(page, "connection-form-security")
    pages.save(form)

    said = pages.test_of_connection(page, "kafka_prod")
    pages.picture(page, "connection-test")
    assert "3 brokers" in said
    assert "the listing is complete" in said

    pages.change_password(page, "kafka_prod", "wrong")
    said = pages.test_of_connection(page, "kafka_prod")
    pages.picture(page, "connection-test-failed")
    assert "3 brokers" not in said
    assert "uthenticat" in said
    assert KAFKA_PASSWORD not in page.content()


def test_owners_have_mail_before_anything_is_deleted_and_the_report_shows_families_and_owners(
    page: Page, scene: Scene
) -> None:
    assert {mail.recipients for mail in scene.mailbox.mails} == {
        (f"{name}@example.com",) for name in ("analytics", "checkout-oncall", "kafka-platform", "search")
    }
    assert set().union(*(mail.groups for mail in scene.mailbox.mails)) == scene.workload.stale
    mail = next(path for path in sorted(MAILS.iterdir()) if "search" in path.name)
    page.goto(mail.as_uri())
    report = f"{scene.airflow.url}/dags/{CLEANUP}/runs/{scene.notice_run}/plugin/kafka-groups-report"
    assert report in page.inner_text("body")
    pages.picture(page, "notice-mail", height=420)

    pages.visit(page, f"/dags/{CLEANUP}/runs/{scene.notice_run}/tasks/notify")
    page.get_by_text("groups marked").first.wait_for()
    pages.picture(page, "notice-task")

    pages.visit(page, report)
    body = pages.report_in_tab(page).locator("body")
    text = body.inner_text()
    pages.picture(page, "report-notice")
    for chosen in ("dark", "light"):  # as Airflow's switch does
        page.evaluate("(chosen) => { document.documentElement.className = chosen; }", chosen)
        colours = f"() => getComputedStyle(document.documentElement).colorScheme === '{chosen}'"
        body.evaluate(f"async () => {{ while (!({colours})()) await new Promise((done) => setTimeout(done, 50)); }}")
    assert all(found in text for found in ("report-<uuid>", "console-consumer-<number>", "app-checkout-<version>"))
    assert all(owner in text for owner in ("analytics", "checkout", "platform", "search"))


def finish(page: Page, scene: Scene, dag_id: str, run: str, state: str = "success") -> None:
    """Wait until a run, of which the browser has the address, has ended in a state."""
    pages.rest(page)
    scene.airflow.wait_for_run(dag_id, unquote(run).rpartition("/")[2], state)


def open_question(page: Page, scene: Scene, dag_id: str, run: str) -> None:
    """Wait until a run asks somebody, and open its question."""
    pages.rest(page)
    scene.airflow.wait_for_question(dag_id, unquote(run).rpartition("/")[2], "approve")
    pages.open_question(page, run)


def prune_by_clicking(page: Page, scene: Scene) -> None:
    """Prune the topic that a live group has left, after an approval."""
    bootstrap = scene.cluster.bootstrap
    before = committed_offsets(bootstrap, [LEFT_BY])[LEFT_BY]
    assert len([topic for topic, _ in before if topic == LEFT_TOPIC]) == PRUNABLE
    form = pages.open_trigger_form(page, PRUNE)
    assert pages.is_on(form, "require_approval")
    pages.switch(form, "dry_run")
    pages.picture(page, "prune-form")
    run = pages.trigger(form)

    open_question(page, scene, PRUNE, run)
    assert f"{LEFT_BY} [{LEFT_TOPIC}]" in page.inner_text("body")
    pages.picture(page, "prune-approval")
    assert committed_offsets(bootstrap, [LEFT_BY])[LEFT_BY].keys() == before.keys()
    pages.fill(page, "confirm_groups", "1")
    page.get_by_role("button", name="Approve", exact=True).click()
    finish(page, scene, PRUNE, run)
    pages.visit(page, f"{run}/tasks/prune")
    page.get_by_text(f"deleted: {LEFT_BY} [{LEFT_TOPIC}]").first.wait_for()
    pages.picture(page, "prune-task")
    left = committed_offsets(bootstrap, [LEFT_BY])[LEFT_BY]
    assert left.keys() == {at for at in before if at[0] != LEFT_TOPIC}
    scene.workload.check()


def test_topics_are_pruned_and_groups_deleted_after_approvals_and_the_report_has_both(page: Page, scene: Scene) -> None:
    prune_by_clicking(page, scene)
    form = pages.open_trigger_form(page, CLEANUP)
    assert pages.is_on(form, "dry_run")
    assert pages.is_on(form, "require_approval")
    pages.switch(form, "dry_run")
    page.get_by_text("approve response successful").wait_for(state="hidden")  # of the pruning, and soon gone
    pages.picture(page, "cleanup-form")
    policy = form.locator("[name=element_policy_file]")
    assert policy.input_value() == str(scene.policy)
    run = pages.trigger(form)

    # The question. Nothing is deleted before it is answered, and not without the right number.
    open_question(page, scene, CLEANUP, run)
    pages.picture(page, "approval")
    found = re.search(r"Delete (\d+) consumer groups of demo", page.inner_text("body"))
    assert found is not None
    assert set(list_groups(scene.cluster.bootstrap)) >= scene.workload.groups
    approve = page.get_by_role("button", name="Approve", exact=True)
    assert approve.is_disabled()
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Report with all groups").click()
    assert "Nothing was deleted" in pages.report_in_tab(opened.value).locator("body").inner_text()
    opened.value.close()
    pages.fill(page, "confirm_groups", found[1])
    pages.fill(page, "exclude_groups", SPARED)
    approve.scroll_into_view_if_needed()
    pages.picture(page, "approval-form")
    approve.click()

    # The deletion, and the report of what became of it. Airflow's page does not look for new links by itself.
    finish(page, scene, CLEANUP, run)
    pages.visit(page, f"{run}/tasks/report/details")
    page.get_by_role("link", name="Clean-up report").click()
    report = pages.report_in_tab(page)
    text = report.locator("body").inner_text()
    pages.picture(page, "report-tab")
    assert re.search(rf"{int(found[1]) - 1}\s+Deleted", text)
    assert SPARED in text
    pruned = report.locator("#pruned")
    assert LEFT_TOPIC in pruned.inner_text()
    assert "airflow-kafka-groups restore" in pruned.inner_text()
    pages.picture_of(pruned, "report-pruned")
    left = set(list_groups(scene.cluster.bootstrap))
    workload = scene.workload
    assert left >= workload.live | workload.moving | workload.sleeping | workload.protected | {SPARED}
    assert not (workload.stale - {SPARED}) & left
    scene.workload.check()


def test_groups_that_sleep_are_kept_alive_by_a_form(page: Page, scene: Scene) -> None:
    run = pages.trigger(pages.open_trigger_form(page, KEEP_ALIVE))
    finish(page, scene, KEEP_ALIVE, run)
    pages.visit(page, f"{run}/tasks/keep_alive")
    page.get_by_text(f"'kept_alive': {len(scene.workload.sleeping)}").first.wait_for()
    pages.picture(page, "keep-alive")


def test_a_fleet_is_cleaned_up_by_one_policy_and_a_cluster_that_is_down_holds_no_other_up(
    page: Page, scene: Scene
) -> None:
    form = pages.open_trigger_form(page, CLEANUP_FLEET)
    pages.switch(form, "dry_run")
    pages.switch(form, "require_approval")
    form.locator("[name=element_policy_file]").fill(str(without_demo(scene.policy)))
    run = pages.trigger(form)
    finish(page, scene, CLEANUP_FLEET, run, "failed")
    page.goto(run)  # a visit would show for a while what the page knew when the run began
    page.get_by_text("clean_up").first.wait_for()
    pages.picture(page, "fleet-run")
    pages.visit(page, f"{run}/tasks/fleet/details")
    page.get_by_role("link", name="Clean-up report").click()
    report = pages.report_in_tab(page)
    text = report.locator("body").inner_text()
    pages.picture(page, "fleet-report")
    assert f"{DOWN} failed at find_coordinators" in text
    assert "2 clusters: 1 done, 0 skipped, 1 failed" in text
    staging = report.get_by_role("row").filter(has_text=STAGING)
    assert f"deleted {len(PREVIEWS)}" in staging.inner_text()
    staging.get_by_role("link", name="report").click()
    report.get_by_text(f"Consumer groups of {STAGING}").first.wait_for()
    pages.picture(page, "fleet-cluster")
    left = set(list_groups(scene.staging.bootstrap))
    assert left >= {LIVE, *PROTECTED}
    assert not PREVIEWS & left


def test_a_run_without_a_report_says_so_in_its_tab(page: Page, scene: Scene) -> None:
    pages.visit(page, f"/dags/{SNAPSHOT_FLEET}/runs/{scene.snapshot_run}/plugin/kafka-groups-report")
    assert pages.report_in_tab(page).locator("h1").inner_text() == "No report in this run"
