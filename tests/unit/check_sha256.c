/* SHA-256 against published digests, in any division of the message. */
#include "core/sha256.h"
#include "support/random.h"
#include "support/require.h"

#include <string.h>

static void expect_digest(const char *message, size_t n, const char *want) {
    for (size_t cut = 0; cut <= n && cut < (n < 1000 ? 200 : 3); cut++) { /* two pieces */
        mlsi_sha256 h;
        uint8_t digest[32];
        char text[65];
        mlsi_sha256_init(&h);
        mlsi_sha256_add(&h, message, cut);
        mlsi_sha256_add(&h, message + cut, n - cut);
        mlsi_sha256_finish(&h, digest);
        mlsi_sha256_hex(digest, text);
        if (strcmp(text, want)) ck_abort_msg("%s, not %s", text, want);
    }
}

START_TEST(published_digests) {
    expect_digest("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect_digest("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    const char *two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    expect_digest(two, strlen(two),
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    static char million[1000000];
    memset(million, 'a', sizeof million);
    expect_digest(million, sizeof million,
                  "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}
END_TEST

/* Lengths around the padding's edges, whole against random pieces. */
START_TEST(pieces_do_not_matter) {
    test_random r = test_random_seed("pieces", 12);
    static uint8_t data[500];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)test_bits(&r);
    for (size_t n = 0; n < sizeof data; n++) {
        mlsi_sha256 whole, pieces;
        uint8_t a[32], b[32];
        mlsi_sha256_init(&whole);
        mlsi_sha256_init(&pieces);
        mlsi_sha256_add(&whole, data, n);
        for (size_t at = 0; at < n;) {
            size_t take = (size_t)test_int(&r, 0, 130);
            if (take > n - at) take = n - at;
            mlsi_sha256_add(&pieces, data + at, take);
            at += take;
        }
        mlsi_sha256_finish(&whole, a);
        mlsi_sha256_finish(&pieces, b);
        REQUIRE(!memcmp(a, b, 32));
    }
}
END_TEST

int main(void) {
    Suite *s = suite_create("sha256");
    TCase *t = tcase_create("sha256");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, published_digests);
    tcase_add_test(t, pieces_do_not_matter);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
