"""SDKs of vendors, in Python. `./test-sdks` runs it."""

import os
import threading
import time
import unittest
import urllib.request
import uuid

import boto3
import openai
import square
import stripe
from botocore.config import Config

SERVICE, PROXY = os.environ["SERVICE"], os.environ["PROXY"]


def get(path):
    with urllib.request.urlopen(f"{SERVICE}{path}") as response:
        return int(response.read())


def text():
    """A text that only the requests of one test have."""
    return f"t{uuid.uuid4().hex}"


def until(number, path):
    deadline = time.monotonic() + 30
    while get(path) != number:
        assert time.monotonic() < deadline, f"{path} is not {number}"
        time.sleep(0.01)


class Sdk(unittest.TestCase):
    def setUp(self):
        get("/faults/0/0")

    def lose(self, replies):
        get(f"/faults/{replies}/0")

    def cut(self, replies):
        get(f"/faults/0/{replies}")

    def assert_one_effect(self, text):
        self.assertEqual(get("/faults/0/0"), 0, "the faults happened")
        self.assertEqual(get(f"/effects/{text}"), 1)


class Stripe(Sdk):
    def charge(self, text, retries=3, amount=1200, **options):
        client = stripe.StripeClient(
            "sk_test_1", base_addresses={"api": PROXY}, max_network_retries=retries
        )
        params = {"amount": amount, "currency": "eur", "source": "tok_visa", "description": text}
        return client.v1.charges.create(params, options)

    def test_a_call_whose_replies_are_lost_charges_once(self):
        for lost in (0, 1, 2, 1, 2):
            description = text()
            self.lose(lost)
            charge = self.charge(description)
            self.assertTrue(charge.id.startswith("ch_"))
            self.assert_one_effect(description)

    def test_a_repetition_after_a_cut_reply_gets_the_first_charge(self):
        description, key = text(), text()
        self.cut(1)
        with self.assertRaises(stripe.APIConnectionError):
            self.charge(description, idempotency_key=key, retries=0)
        first = self.charge(description, idempotency_key=key)
        again = self.charge(description, idempotency_key=key)
        self.assertEqual(first.id, again.id)
        self.assertEqual(again.last_response.idempotency_key, key)
        self.assertEqual(again.last_response.headers["Idempotent-Replayed"], "true")
        self.assert_one_effect(description)

    def test_another_amount_under_the_key_is_an_idempotency_error(self):
        description, key = text(), text()
        self.charge(description, idempotency_key=key)
        with self.assertRaises(stripe.IdempotencyError) as refused:
            self.charge(description, amount=1300, idempotency_key=key)
        self.assertEqual(refused.exception.http_status, 400)
        self.assert_one_effect(description)

    def test_a_repetition_of_a_running_call_is_refused_or_retried_until_it_has_the_charge(self):
        description, key = f"{text()}slowly", text()
        first = []
        call = lambda: first.append(self.charge(description, idempotency_key=key))
        running = threading.Thread(target=call)
        running.start()
        until(1, f"/effects/{description}")
        with self.assertRaises(stripe.StripeError) as refused:
            self.charge(description, idempotency_key=key, retries=0)
        self.assertEqual(refused.exception.http_status, 409)
        self.assertEqual(refused.exception.error.code, "idempotency_key_in_use")
        again = self.charge(description, idempotency_key=key, retries=5)
        running.join()
        self.assertEqual(first[0].id, again.id)
        self.assert_one_effect(description)

    def test_a_declined_card_is_a_card_error_and_is_not_tried_again(self):
        description, key = f"{text()}declined", text()
        for _ in range(2):
            with self.assertRaises(stripe.CardError) as declined:
                self.charge(description, idempotency_key=key)
            self.assertEqual(declined.exception.code, "card_declined")
        self.assert_one_effect(description)


class Aws(Sdk):
    def test_a_task_whose_replies_are_lost_runs_once(self):
        # The SDK makes the `clientToken` itself.
        config = Config(retries={"max_attempts": 5, "mode": "standard"})
        ecs = boto3.client(
            "ecs",
            endpoint_url=PROXY,
            region_name="eu-west-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
            config=config,
        )
        # After a cut reply this SDK returns a response without data.
        for lost in (0, 1, 2):
            group = text()
            self.lose(lost)
            task = ecs.run_task(taskDefinition="shop", group=group)
            self.assertTrue(task["tasks"][0]["taskArn"].startswith("arn:"))
            self.assert_one_effect(group)


class OpenAi(Sdk):
    def test_a_completion_whose_replies_are_lost_is_made_once(self):
        client = openai.OpenAI(api_key="test", base_url=f"{PROXY}/openai", max_retries=3)
        for lost in (0, 1, 2):
            prompt = text()
            self.lose(lost)
            completion = client.chat.completions.create(
                model="m",
                messages=[{"role": "user", "content": prompt}],
                extra_headers={"Idempotency-Key": text()},
            )
            self.assertEqual(completion.choices[0].message.content, "yes")
            self.assert_one_effect(prompt)


class Square(Sdk):
    def test_a_repeated_payment_is_made_once(self):
        client = square.Square(base_url=f"{PROXY}/square", token="test")
        for faults in ((0, 0), (1, 0), (0, 1)):
            note, key = text(), text()
            get(f"/faults/{faults[0]}/{faults[1]}")
            pay = lambda: client.payments.create(
                source_id="cnon:ok",
                idempotency_key=key,
                amount_money={"amount": 1200, "currency": "EUR"},
                note=note,
            )
            try:
                payment = pay()
            except Exception:
                # This SDK returns the error of a broken connection. Its users repeat the call with its key.
                self.assertNotEqual(faults, (0, 0))
                payment = pay()
            self.assertEqual(payment.payment.id, pay().payment.id)
            self.assert_one_effect(note)


if __name__ == "__main__":
    unittest.main(verbosity=2)
