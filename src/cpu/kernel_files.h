/* The kernel sources that export a table, MLSI_KERNEL_FILE(<name in cpu/kernels/ without .c>). Within
 * one instruction set rows are tried in this order, so special kernels come before general ones. */
MLSI_KERNEL_FILE(elementwise_arith)
MLSI_KERNEL_FILE(elementwise_math)
MLSI_KERNEL_FILE(rows_norm)
MLSI_KERNEL_FILE(elementwise_logic)
MLSI_KERNEL_FILE(cast)
MLSI_KERNEL_FILE(movement)
MLSI_KERNEL_FILE(rope)
MLSI_KERNEL_FILE(rows_softmax)
MLSI_KERNEL_FILE(index_gather)
