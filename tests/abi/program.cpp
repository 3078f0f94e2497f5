// A C++17 program over the public header: ownership in a destructor, errors as exceptions.
#include <mlsys/mlsys.h>

#include <array>
#include <cstdio>
#include <stdexcept>

static void check(mlsys_status status) {
    if (status != MLSYS_OK) throw std::runtime_error(mlsys_last_error());
}

template <class T> struct Handle {
    T h = nullptr;
    Handle() = default;
    Handle(const Handle &) = delete;
    Handle &operator=(const Handle &) = delete;
    ~Handle() { mlsys_release(h); }
};

int main() try {
    Handle<mlsys_ctx> ctx;
    Handle<mlsys_device> device;
    Handle<mlsys_stream> stream;
    Handle<mlsys_tensor> a, b, product, none;
    check(mlsys_ctx_create(nullptr, nullptr, &ctx.h));
    check(mlsys_device_get(ctx.h, MLSYS_CPU, 0, &device.h));
    check(mlsys_stream_create(device.h, nullptr, &stream.h));

    const std::array<int64_t, 2> shape{2, 2};
    const std::array<float, 4> values{1, 2, 3, 4};
    check(mlsys_tensor_create(device.h, MLSYS_F32, 2, shape.data(), &a.h));
    check(mlsys_tensor_write(a.h, stream.h, values.data(), sizeof values));
    check(mlsys_tensor_transpose(a.h, 0, 1, &b.h));
    check(mlsys_matmul(stream.h, a.h, b.h, &product.h));
    std::array<float, 4> out{};
    check(mlsys_tensor_read(product.h, stream.h, out.data(), sizeof out));
    const bool right = out == std::array<float, 4>{5, 11, 11, 25};
    std::printf("%g %g %g %g\n", out[0], out[1], out[2], out[3]);

    bool refused = false;
    try {
        check(mlsys_tensor_transpose(a.h, 0, 7, &none.h)); // a failure sets the handle to NULL
    } catch (const std::runtime_error &e) {
        refused = true;
        std::printf("refused: %s\n", e.what());
    }
    return right && refused ? 0 : 1;
} catch (const std::exception &e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
