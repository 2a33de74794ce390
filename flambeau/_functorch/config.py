"""torch._functorch.config: settings of PyTorch 2.13's autograd compiler, taken without effect."""

from .._dynamo.stored_settings import defaults, store_settings

store_settings(__name__, defaults(
    on="""
        fake_tensor_allow_meta decompose_custom_triton_ops static_weight_shapes
        treat_parameters_as_free_to_save cse enable_autograd_cache
        autograd_cache_normalize_inputs check_custom_op_aliasing view_replay_for_aliased_outputs
        ban_recompute_used_far_apart ban_recompute_long_fusible_chains
        ban_recompute_materialized_backward ban_recompute_not_in_allowlist
        ban_recompute_reductions remat_using_tags_for_fwd_loss_bwd_graph
        fake_tensor_allow_unsafe_data_ptr_access donated_buffer graphsafe_rng_functionalization
        guess_tangent_strides_as_outputs
    """,
    off="""
        functionalize_rng_ops debug_assert debug_partitioner
        unsafe_treat_script_objects_as_zero_size autograd_cache_allow_custom_autograd_functions
        bundled_autograd_cache bypass_autograd_cache_key error_on_custom_op_aliasing
        recompute_views is_non_builtin_to_include visualize_memory_budget_pareto
        aggressive_recomputation enable_activation_offloading activation_offload_separate_stream
        activation_offload_sink_wait activation_reload_prefetch unlift_effect_tokens
        fake_tensor_crossref fake_tensor_propagate_real_tensors
        generate_fake_kernels_from_real_mismatches force_non_lazy_backward_lowering
        strict_autograd_cache unsafe_allow_optimization_of_collectives
        disable_guess_zero_tangent_for_mutated_input_subclass force_autograd_cache
        selective_decompose enable_complex_wrapper
    """,
    max_dist_from_bw=1000, activation_memory_budget=1.0,
    activation_memory_budget_runtime_estimator="flops", activation_memory_budget_solver="dp",
    activation_offload_cpu_gpu_bw=50.0, custom_op_default_layout_constraint="needs_exact_strides",
    backward_pass_autocast="same_as_forward", torch_compile_graph_format="svg",
    saved_tensors_hooks_filtering_mode="donated",
))
