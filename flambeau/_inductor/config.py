"""torch._inductor.config: settings of PyTorch 2.13's code generator, taken without effect."""

from .._dynamo.stored_settings import Group, defaults, store_settings

_GROUPS = {
    "triton": Group(**defaults(
        on="""
            cudagraph_trees slow_path_cudagraph_asserts cudagraph_support_input_mutation
            reorder_for_reducing_graph_partitions coalesce_tiling_analysis autotune_pointwise
            autotune_cublasLt tiling_prevents_pointwise_fusion tiling_prevents_reduction_fusion
            unique_kernel_names persistent_reductions divisible_by_16 emit_pointer_range_32
            transpose_discontiguous_tensor_descriptor codegen_upcast_to_fp32 mix_order_reduction
            mix_order_reduction_allow_multi_stages proton_group_by_sm proton_split_invocations
            proton_per_cta_occupancy dynamic_disable_pipelining
        """,
        off="""
            cudagraphs cudagraph_skip_dynamic_graphs cudagraph_trees_history_recording
            cudagraph_trees_objgraph force_cudagraph_sync force_cudagraphs_warmup
            cudagraph_or_error fast_path_cudagraph_asserts skip_cudagraph_warmup
            debug_sync_graph debug_sync_kernel dense_indexing prefer_nd_tiling
            autotune_with_sample_inputs tile_reductions native_matmul unique_user_kernel_names
            decompose_sort_ops cooperative_reductions force_cooperative_reductions store_cubin
            use_block_ptr use_tensor_descriptor enable_persistent_tma_matmul
            enable_template_tma_store enable_tma_load_for_template_epilogue skip_l1_cache
            enable_pdl mix_order_reduction_autotune_split_size
            mix_order_reduction_non_strict_mode nested_reduction proton_profiling
        """,
        cudagraph_min_partition_size=0, cudagraph_unexpected_rerecord_limit=128,
        cudagraph_dynamic_shape_warn_limit=8, cudagraph_partition_memory_budget=1.1,
        descriptive_names="original_aten", use_two_step_variance_min_numel=1024,
        use_two_step_variance_threshold=32768, multi_kernel=0, min_split_scan_rblock=256,
        spill_threshold=16, num_decompose_k_splits=10, decompose_k_threshold=32,
        mix_order_reduction_initial_xblock=1, mix_order_reduction_max_reads=10,
        max_kernel_dump_occurrences=3,
    )),
    "cpp": Group(**defaults(
        on="""
            no_redundant_loops weight_prepack fallback_scatter_reduce_sum
            enable_tiling_heuristics enable_loop_tail_vec use_constexpr_for_int_array
        """,
        off="""
            dynamic_threads enable_kernel_profile enable_unsafe_math_opt_flag
            enable_grouped_gemm_template enable_concat_linear use_decompose_tanh
            use_small_dequant_buffer force_inline_kernel
        """,
        threads=-1, min_chunk_size=512, descriptive_names="original_aten",
        max_horizontal_fusion_size=16, enable_floating_point_contract_flag="off",
        gemm_max_k_slices=1, use_two_step_variance_threshold=1024,
    )),
    "trace": Group(**defaults(
        on="""
            fx_graph fx_graph_transformed ir_pre_fusion ir_post_fusion output_code
        """,
        off="""
            enabled save_real_tensors debug_log info_log graph_diagram draw_orig_fx_graph
            compile_profile log_autotuning_results
        """,
        graph_diagram_format="svg", orig_fx_graph_diagram_format="svg",
        provenance_tracking_level=0,
    )),
    "aot_inductor": Group(**defaults(
        on="""
            enable_frame_pointer enable_line_tables use_consts_asm_build dynamic_linkage
            raise_error_on_ignored_optimization check_lowerbound package_constants_in_so
            precompile_headers link_libtorch
        """,
        off="""
            autotune_per_kernel_alloc debug_compile debug_symbols use_runtime_constant_folding
            force_mmap_weights package dump_aoti_minifier allow_stack_allocation
            use_minimal_arrayref_interface weight_use_caching_allocator enable_lto
        """,
        output_path="", compile_wrapper_opt_level="O1", debug_intermediate_value_printer="0",
        serialized_in_spec="", serialized_out_spec="", repro_level=2,
    )),
    **{name: Group() for name in (
        "aot_inductor_mode", "aten_distributed_optimizations", "auto_chunker", "cuda", "cutlass",
        "eager_numerics", "halide", "lookup_table", "mtia", "rocm", "test_configs", "xpu",
    )},
}

store_settings(__name__, defaults(
    on="""
        inplace_padding enable_auto_functionalized_v2 disable_progress fx_graph_cache
        bundle_triton_into_fx_graph_cache non_blocking_remote_cache_write autotune_local_cache
        cpp_cache_precompile_headers online_softmax apply_gumbel_max_trick static_weight_shapes
        size_asserts scalar_asserts alignment_asserts pick_loop_orders inplace_buffers
        allow_buffer_reuse benchmark_harness epilogue_fusion prologue_fusion pattern_matcher
        split_cat_fx_passes batch_fusion reorder_for_locality dynamic_scale_rblock
        keep_addmm_fused_for_half_dtypes use_mixed_mm reorder_for_peak_memory
        use_experimental_benchmarker max_autotune_report_choices_stats graph_partition use_dce
        use_pre_grad_passes use_joint_graph_passes use_post_grad_passes layout_optimization
        keep_output_stride delay_realize_cheap_outputs implicit_fallbacks
        loop_ordering_after_fusion loop_reindexing_after_fusion loop_index_inversion_in_fusion
        benchmark_epilogue_fusion split_reductions constant_and_index_propagation
        assert_indirect_indexing combo_kernel_foreach_dynamic_shapes
        combo_kernel_autotune_grouping joint_graph_constant_folding
        optimize_scatter_upon_const_tensor worker_suppress_logging quiesce_async_compile_pool
        use_static_cuda_launcher use_static_triton_launcher use_fast_triton_launcher
        use_launch_metadata_schema shape_padding comprehensive_padding disable_padding_cpu
        bw_outputs_user_visible enable_caching_generated_triton_templates
        write_are_deterministic_algorithms_enabled emulate_precision_casts_on_saved_tensors
    """,
    off="""
        can_inplace_pad_graph_input debug verbose_progress remote_gemm_autotune_cache
        force_disable_caches unsafe_skip_cache_dynamic_shape_guards cpp_wrapper
        cpp_wrapper_build_separate fx_wrapper dce nan_asserts runtime_triton_nan_asserts
        memory_planning use_fast_math epilogue_fusion_with_atomic_add epilogue_fusion_first
        epilogue_fusion_user_defined_triton_kernel b2b_gemm_pass
        efficient_conv_bn_eval_fx_passes is_predispatch group_fusion force_fuse_int_mm_with_mul
        reorder_for_compute_comm_overlap reorder_for_peak_memory_debug dedup_reduce_scatters
        runtime_estimations_mms_benchmark distributed_max_autotune_gemm
        pipeline_max_autotune_gemm use_torch_profiler_benchmarker max_autotune
        max_autotune_pointwise max_autotune_gemm incremental_autotune
        max_autotune_prune_choices_based_on_shared_mem triton_disable_device_detection
        max_autotune_allow_flexible_layouts nvgemm_supplement_configs fallback_by_default
        selective_decompose cutedsl_enable_autotuning autotune_fallback_to_aten
        search_autotune_cache save_args autotune_in_subproc autotune_multi_device
        coordinate_descent_tuning coordinate_descent_check_all_directions
        run_jit_post_compile_hook force_layout_optimization cache_sdpa_constraint
        warn_mix_layout fallback_random align_random_eager fallback_embedding_bag_byte_unpack
        assume_unaligned_fallback_output aggressive_fusion debug_fusion benchmark_fusion
        force_pointwise_cat comment_origin conv_1x1_as_mm deterministic batch_invariant
        benchmark_kernel always_keep_tensor_constants do_not_emit_runtime_assertions
        compute_all_bounds combo_kernels benchmark_combo_kernel
        combo_kernel_per_subkernel_blocks combo_kernels_pointwise_only debug_index_asserts
        is_nightly_or_source developer_warnings log_tlparse partitioned_scatter_enabled
        static_launch_user_defined_triton_kernels strict_static_cuda_launcher
        strict_static_triton_launcher keep_static_cubin_raw pad_channels_last pad_dynamic_shapes
        expand_dimension_for_pointwise_nodes pad_outputs force_shape_pad permute_fusion
        profiler_mark_wrapper_call generate_intermediate_hooks debug_ir_traceback
        profile_bandwidth profile_bandwidth_with_do_bench_using_profiling disable_cpp_codegen
        freezing freezing_discard_parameters decompose_mem_bound_mm
        wrap_inductor_compiled_regions assume_aligned_inputs assume_32bit_indexing
        unsafe_ignore_unsupported_triton_autotune_args enable_linear_binary_folding
        annotate_training enable_autograd_for_aot emulate_precision_casts
    """,
    precompilation_timeout_seconds=300,
    triton_kernel_default_layout_constraint="needs_fixed_stride_order",
    memory_pool="intermediates", mixed_mm_choice="heuristic",
    size_threshold_for_succ_based_strategy=0, bucket_all_gathers_fx="none",
    bucket_all_gathers_bucket_mode="default", bucket_reduce_scatters_fx="none",
    bucket_reduce_scatters_bucket_mode="default", bucket_all_reduces_fx="none",
    estimate_op_runtime="default", cpu_gpu_bw=50.0, inductor_default_autotune_warmup=25,
    inductor_default_autotune_rep=100, autotune_num_choices_displayed=10,
    max_autotune_gemm_backends="ATEN,TRITON,CPP", nvgemm_max_profiling_configs=5,
    max_autotune_conv_backends="ATEN,TRITON", max_autotune_conv_bwd_weight_backends="ATEN",
    max_autotune_conv_bwd_input_backends="ATEN", max_autotune_gemm_search_space="DEFAULT",
    max_autotune_flex_search_space="DEFAULT", pre_grad_pass_timing="default",
    unbacked_symint_fallback=8192, max_autotune_subproc_result_timeout_seconds=60.0,
    max_autotune_subproc_graceful_timeout_seconds=0.0,
    max_autotune_subproc_terminate_timeout_seconds=0.0, collective_benchmark_nruns=50,
    collective_benchmark_timeout=30.0, coordinate_descent_search_radius=1,
    autoheuristic_log_path="DEFAULT", layout_opt_default="1", realize_reads_threshold=4,
    realize_cpu_opcount_threshold=50, realize_cpu_acc_reads_threshold=12,
    enabled_metric_tables="", score_fusion_memory_threshold=10,
    max_epilogue_benchmarked_choices=1, max_fusion_size=64, min_overlap_ratio=1.1,
    max_fusion_buffer_group_pairwise_attempts=64, max_complex_pointwise_cat_inputs=8,
    max_pointwise_cat_inputs=8, unroll_reductions_threshold=8, min_num_split=0,
    combo_kernels_autotune=1, combo_kernel_allow_mixed_sizes=1, combo_kernel_max_num_args=250,
    combo_kernel_max_num_nodes=8, combo_kernel_peak_memory_pct_threshold=0.05,
    combo_kernel_max_distance=-1, disabled_passes="", worker_start_method="subprocess",
    small_memory_access_threshold=16777216, partitioned_scatter_min_partitions=2,
    partitioned_scatter_max_partitions=128, partitioned_scatter_memory_budget=0.1,
    quiesce_async_compile_time=60, kernel_name_max_ops=10, padding_alignment_bytes=128,
    padding_stride_threshold=1024, profile_bandwidth_regex="", file_lock_timeout=600,
    compile_worker_wait_timeout=0, torchinductor_worker_logpath="", cpu_backend="cpp",
    cuda_backend="triton", tpu_backend="pallas", xpu_backend="triton",
) | _GROUPS)
