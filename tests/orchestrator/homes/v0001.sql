PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO alembic_version VALUES('0001');
CREATE TABLE sweeps (
	sweep_id VARCHAR(64) NOT NULL, 
	name TEXT NOT NULL, 
	spec TEXT NOT NULL, 
	created_at DATETIME NOT NULL, 
	cancelled_at DATETIME, 
	CONSTRAINT pk_sweeps PRIMARY KEY (sweep_id)
);
INSERT INTO sweeps VALUES('done-bf4af86f','done','{"name":"done","purpose":"","models":[{"layers":1,"width":32,"heads":2,"name":null,"mlp":"swiglu","mlp_width":64}],"recipes":["bf16",{"format":"e2m1","rht":["wgrad"],"sr":["dy"],"name":"own","block":32,"rht_size":32,"bf16_layers":["blocks.0.mlp.*"]}],"grid":{"format":["int4"],"rht":[["fprop","dgrad","wgrad"]],"sr":[["dy"]],"block":[16,32]},"budgets":["2048tok","4096tok"],"seeds":[0],"corpus":"/texts","tokenizer":"byte","train":{"context":32,"batch":"256tok","warmup":"512tok","learning_rate":0.01,"cooldown":0.2,"weight_decay":0.1,"beta1":0.9,"beta2":0.95,"gradient_clip":1.0},"eval":{"held_out":0.2,"tokens":"1024tok"}}','2026-11-30 03:11:48.747784',NULL);
INSERT INTO sweeps VALUES('waiting-5a2a5e08','waiting','{"name":"waiting","purpose":"","models":[{"layers":1,"width":32,"heads":2,"name":null,"mlp":"swiglu","mlp_width":64}],"recipes":["ufp4",{"format":"e2m1","rht":["wgrad"],"sr":["dy"],"name":"own","block":32,"rht_size":32,"bf16_layers":["blocks.0.mlp.*"]}],"grid":null,"budgets":["2048tok","8192tok"],"seeds":[0],"corpus":"/texts","tokenizer":"byte","train":{"context":32,"batch":"256tok","warmup":"512tok","learning_rate":0.01,"cooldown":0.2,"weight_decay":0.1,"beta1":0.9,"beta2":0.95,"gradient_clip":1.0},"eval":{"held_out":0.2,"tokens":"1024tok"}}','2026-11-30 03:13:10.840427',NULL);
CREATE TABLE runs (
	run_id VARCHAR(16) NOT NULL, 
	spec TEXT NOT NULL, 
	"N" BIGINT NOT NULL, 
	flops_per_token DOUBLE NOT NULL, 
	position BIGINT NOT NULL, 
	state VARCHAR(32) NOT NULL, 
	reason VARCHAR(32) NOT NULL, 
	detail TEXT NOT NULL, 
	version BIGINT NOT NULL, 
	attempt BIGINT NOT NULL, 
	strikes_from BIGINT NOT NULL, 
	created_at DATETIME NOT NULL, 
	changed_at DATETIME NOT NULL, 
	CONSTRAINT pk_runs PRIMARY KEY (run_id)
);
INSERT INTO runs VALUES('ef3ee8aa6365fdc3','{"model":{"name":"1x32h2-m64","num_layers":1,"width":32,"num_heads":2,"mlp_width":64,"mlp":"swiglu"},"recipe":{"name":"bf16","fprop":{"left":{"grid":null,"block":16,"scale":"fp32","rounding":"rtne"},"right":{"grid":null,"block":16,"scale":"fp32","rounding":"rtne"},"rht":null},"dgrad":{"left":{"grid":null,"block":16,"scale":"fp32","rounding":"rtne"},"right":{"grid":null,"block":16,"scale":"fp32","rounding":"rtne"},"rht":null},"wgrad":{"left":{"grid":null,"block":16,"scale":"fp32","rounding":"rtne"},"right":{"grid":null,"block":16,"scale":"fp32","rounding":"rtne"},"rht":null},"rules":[]},"corpus":{"name":"/texts","kind":"text","path":"/texts","fingerprint":"47916e7ae706bf18a025e7c9f88c9d1cb790b61e06eb85dd4632a9e814a6b5d3","num_bytes":18732,"num_documents":12},"tokenizer":{"kind":"byte","vocab_size":257},"training":{"context":32,"batch_tokens":256,"learning_rate":0.01,"warmup_tokens":512,"cooldown":0.2,"weight_decay":0.1,"beta1":0.9,"beta2":0.95,"gradient_clip":1.0},"evaluation":{"held_out":0.2,"tokens":1024},"seeds":{"init":0,"data":0,"sr":0,"rht":0},"numerics_version":1}',10368,123072.0,0,'queued','horizon_added','',4,1,2,'2026-11-30 03:11:48.747784','2026-11-30 03:13:10.840427');
INSERT INTO runs VALUES('3bec08cee624e32c','{"model":{"name":"1x32h2-m64","num_layers":1,"width":32,"num_heads":2,"mlp_width":64,"mlp":"swiglu"},"recipe":{"name":"int4-rht.fprop.dgrad.wgrad-sr.dy-block32","fprop":{"left":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":32,"scale":"fp32","rounding":"rtne"},"right":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":32,"scale":"fp32","rounding":"rtne"},"rht":16},"dgrad":{"left":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":32,"scale":"fp32","rounding":"sr"},"right":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":32,"scale":"fp32","rounding":"rtne"},"rht":16},"wgrad":{"left":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":32,"scale":"fp32","rounding":"sr"},"right":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":32,"scale":"fp32","rounding":"rtne"},"rht":16},"rules":[]},"corpus":{"name":"/texts","kind":"text","path":"/texts","fingerprint":"47916e7ae706bf18a025e7c9f88c9d1cb790b61e06eb85dd4632a9e814a6b5d3","num_bytes":18732,"num_documents":12},"tokenizer":{"kind":"byte","vocab_size":257},"training":{"context":32,"batch_tokens":256,"learning_rate":0.01,"warmup_tokens":512,"cooldown":0.2,"weight_decay":0.1,"beta1":0.9,"beta2":0.95,"gradient_clip":1.0},"evaluation":{"held_out":0.2,"tokens":1024},"seeds":{"init":0,"data":0,"sr":0,"rht":0},"numerics_version":1}',10368,123072.0,1,'succeeded','completed','',3,1,1,'2026-11-30 03:11:48.747784','2026-11-30 03:12:27.337758');
INSERT INTO runs VALUES('f5a291040cdd8da8','{"model":{"name":"1x32h2-m64","num_layers":1,"width":32,"num_heads":2,"mlp_width":64,"mlp":"swiglu"},"recipe":{"name":"ufp4","fprop":{"left":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":16,"scale":"fp32","rounding":"rtne"},"right":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":16,"scale":"fp32","rounding":"rtne"},"rht":16},"dgrad":{"left":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":16,"scale":"fp32","rounding":"sr"},"right":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":16,"scale":"fp32","rounding":"rtne"},"rht":16},"wgrad":{"left":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":16,"scale":"fp32","rounding":"sr"},"right":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":16,"scale":"fp32","rounding":"rtne"},"rht":16},"rules":[]},"corpus":{"name":"/texts","kind":"text","path":"/texts","fingerprint":"47916e7ae706bf18a025e7c9f88c9d1cb790b61e06eb85dd4632a9e814a6b5d3","num_bytes":18732,"num_documents":12},"tokenizer":{"kind":"byte","vocab_size":257},"training":{"context":32,"batch_tokens":256,"learning_rate":0.01,"warmup_tokens":512,"cooldown":0.2,"weight_decay":0.1,"beta1":0.9,"beta2":0.95,"gradient_clip":1.0},"evaluation":{"held_out":0.2,"tokens":1024},"seeds":{"init":0,"data":0,"sr":0,"rht":0},"numerics_version":1}',10368,123072.0,2,'queued','horizon_added','',4,1,2,'2026-11-30 03:11:48.747784','2026-11-30 03:13:10.840427');
INSERT INTO runs VALUES('da9cb58122ff07b6','{"model":{"name":"1x32h2-m64","num_layers":1,"width":32,"num_heads":2,"mlp_width":64,"mlp":"swiglu"},"recipe":{"name":"own","fprop":{"left":{"grid":{"name":"e2m1","magnitudes":[0.0,0.5,1.0,1.5,2.0,3.0,4.0,6.0]},"block":32,"scale":"fp32","rounding":"rtne"},"right":{"grid":{"name":"e2m1","magnitudes":[0.0,0.5,1.0,1.5,2.0,3.0,4.0,6.0]},"block":32,"scale":"fp32","rounding":"rtne"},"rht":null},"dgrad":{"left":{"grid":{"name":"e2m1","magnitudes":[0.0,0.5,1.0,1.5,2.0,3.0,4.0,6.0]},"block":32,"scale":"fp32","rounding":"sr"},"right":{"grid":{"name":"e2m1","magnitudes":[0.0,0.5,1.0,1.5,2.0,3.0,4.0,6.0]},"block":32,"scale":"fp32","rounding":"rtne"},"rht":null},"wgrad":{"left":{"grid":{"name":"e2m1","magnitudes":[0.0,0.5,1.0,1.5,2.0,3.0,4.0,6.0]},"block":32,"scale":"fp32","rounding":"sr"},"right":{"grid":{"name":"e2m1","magnitudes":[0.0,0.5,1.0,1.5,2.0,3.0,4.0,6.0]},"block":32,"scale":"fp32","rounding":"rtne"},"rht":32},"rules":[{"pattern":"blocks.0.mlp.*","quantize":false}]},"corpus":{"name":"/texts","kind":"text","path":"/texts","fingerprint":"47916e7ae706bf18a025e7c9f88c9d1cb790b61e06eb85dd4632a9e814a6b5d3","num_bytes":18732,"num_documents":12},"tokenizer":{"kind":"byte","vocab_size":257},"training":{"context":32,"batch_tokens":256,"learning_rate":0.01,"warmup_tokens":512,"cooldown":0.2,"weight_decay":0.1,"beta1":0.9,"beta2":0.95,"gradient_clip":1.0},"evaluation":{"held_out":0.2,"tokens":1024},"seeds":{"init":0,"data":0,"sr":0,"rht":0},"numerics_version":1}',10368,123072.0,3,'queued','horizon_added','',4,1,2,'2026-11-30 03:11:48.747784','2026-11-30 03:13:10.840427');
CREATE TABLE members (
	sweep_id VARCHAR(64) NOT NULL, 
	run_id VARCHAR(16) NOT NULL, 
	position BIGINT NOT NULL, 
	spec TEXT NOT NULL, 
	CONSTRAINT pk_members PRIMARY KEY (sweep_id, run_id), 
	CONSTRAINT fk_members_sweep_id_sweeps FOREIGN KEY(sweep_id) REFERENCES sweeps (sweep_id), 
	CONSTRAINT fk_members_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
INSERT INTO members VALUES('done-bf4af86f','ef3ee8aa6365fdc3',0,'{"model":{"name":"1x32h2-m64","num_layers":1,"width":32,"num_heads":2,"mlp_width":64,"mlp":"swiglu"},"recipe":{"name":"bf16","fprop":{"left":{"grid":null,"block":16,"scale":"fp32","rounding":"rtne"},"right":{"grid":null,"block":16,"scale":"fp32","rounding":"rtne"},"rht":null},"dgrad":{"left":{"grid":null,"block":16,"scale":"fp32","rounding":"rtne"},"right":{"grid":null,"block":16,"scale":"fp32","rounding":"rtne"},"rht":null},"wgrad":{"left":{"grid":null,"block":16,"scale":"fp32","rounding":"rtne"},"right":{"grid":null,"block":16,"scale":"fp32","rounding":"rtne"},"rht":null},"rules":[]},"corpus":{"name":"/texts","kind":"text","path":"/texts","fingerprint":"47916e7ae706bf18a025e7c9f88c9d1cb790b61e06eb85dd4632a9e814a6b5d3","num_bytes":18732,"num_documents":12},"tokenizer":{"kind":"byte","vocab_size":257},"training":{"context":32,"batch_tokens":256,"learning_rate":0.01,"warmup_tokens":512,"cooldown":0.2,"weight_decay":0.1,"beta1":0.9,"beta2":0.95,"gradient_clip":1.0},"evaluation":{"held_out":0.2,"tokens":1024},"seeds":{"init":0,"data":0,"sr":0,"rht":0},"numerics_version":1}');
INSERT INTO members VALUES('done-bf4af86f','3bec08cee624e32c',1,'{"model":{"name":"1x32h2-m64","num_layers":1,"width":32,"num_heads":2,"mlp_width":64,"mlp":"swiglu"},"recipe":{"name":"int4-rht.fprop.dgrad.wgrad-sr.dy-block32","fprop":{"left":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":32,"scale":"fp32","rounding":"rtne"},"right":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":32,"scale":"fp32","rounding":"rtne"},"rht":16},"dgrad":{"left":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":32,"scale":"fp32","rounding":"sr"},"right":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":32,"scale":"fp32","rounding":"rtne"},"rht":16},"wgrad":{"left":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":32,"scale":"fp32","rounding":"sr"},"right":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":32,"scale":"fp32","rounding":"rtne"},"rht":16},"rules":[]},"corpus":{"name":"/texts","kind":"text","path":"/texts","fingerprint":"47916e7ae706bf18a025e7c9f88c9d1cb790b61e06eb85dd4632a9e814a6b5d3","num_bytes":18732,"num_documents":12},"tokenizer":{"kind":"byte","vocab_size":257},"training":{"context":32,"batch_tokens":256,"learning_rate":0.01,"warmup_tokens":512,"cooldown":0.2,"weight_decay":0.1,"beta1":0.9,"beta2":0.95,"gradient_clip":1.0},"evaluation":{"held_out":0.2,"tokens":1024},"seeds":{"init":0,"data":0,"sr":0,"rht":0},"numerics_version":1}');
INSERT INTO members VALUES('done-bf4af86f','f5a291040cdd8da8',2,'{"model":{"name":"1x32h2-m64","num_layers":1,"width":32,"num_heads":2,"mlp_width":64,"mlp":"swiglu"},"recipe":{"name":"int4-rht.fprop.dgrad.wgrad-sr.dy","fprop":{"left":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":16,"scale":"fp32","rounding":"rtne"},"right":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":16,"scale":"fp32","rounding":"rtne"},"rht":16},"dgrad":{"left":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":16,"scale":"fp32","rounding":"sr"},"right":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":16,"scale":"fp32","rounding":"rtne"},"rht":16},"wgrad":{"left":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":16,"scale":"fp32","rounding":"sr"},"right":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":16,"scale":"fp32","rounding":"rtne"},"rht":16},"rules":[]},"corpus":{"name":"/texts","kind":"text","path":"/texts","fingerprint":"47916e7ae706bf18a025e7c9f88c9d1cb790b61e06eb85dd4632a9e814a6b5d3","num_bytes":18732,"num_documents":12},"tokenizer":{"kind":"byte","vocab_size":257},"training":{"context":32,"batch_tokens":256,"learning_rate":0.01,"warmup_tokens":512,"cooldown":0.2,"weight_decay":0.1,"beta1":0.9,"beta2":0.95,"gradient_clip":1.0},"evaluation":{"held_out":0.2,"tokens":1024},"seeds":{"init":0,"data":0,"sr":0,"rht":0},"numerics_version":1}');
INSERT INTO members VALUES('done-bf4af86f','da9cb58122ff07b6',3,'{"model":{"name":"1x32h2-m64","num_layers":1,"width":32,"num_heads":2,"mlp_width":64,"mlp":"swiglu"},"recipe":{"name":"own","fprop":{"left":{"grid":{"name":"e2m1","magnitudes":[0.0,0.5,1.0,1.5,2.0,3.0,4.0,6.0]},"block":32,"scale":"fp32","rounding":"rtne"},"right":{"grid":{"name":"e2m1","magnitudes":[0.0,0.5,1.0,1.5,2.0,3.0,4.0,6.0]},"block":32,"scale":"fp32","rounding":"rtne"},"rht":null},"dgrad":{"left":{"grid":{"name":"e2m1","magnitudes":[0.0,0.5,1.0,1.5,2.0,3.0,4.0,6.0]},"block":32,"scale":"fp32","rounding":"sr"},"right":{"grid":{"name":"e2m1","magnitudes":[0.0,0.5,1.0,1.5,2.0,3.0,4.0,6.0]},"block":32,"scale":"fp32","rounding":"rtne"},"rht":null},"wgrad":{"left":{"grid":{"name":"e2m1","magnitudes":[0.0,0.5,1.0,1.5,2.0,3.0,4.0,6.0]},"block":32,"scale":"fp32","rounding":"sr"},"right":{"grid":{"name":"e2m1","magnitudes":[0.0,0.5,1.0,1.5,2.0,3.0,4.0,6.0]},"block":32,"scale":"fp32","rounding":"rtne"},"rht":32},"rules":[{"pattern":"blocks.0.mlp.*","quantize":false}]},"corpus":{"name":"/texts","kind":"text","path":"/texts","fingerprint":"47916e7ae706bf18a025e7c9f88c9d1cb790b61e06eb85dd4632a9e814a6b5d3","num_bytes":18732,"num_documents":12},"tokenizer":{"kind":"byte","vocab_size":257},"training":{"context":32,"batch_tokens":256,"learning_rate":0.01,"warmup_tokens":512,"cooldown":0.2,"weight_decay":0.1,"beta1":0.9,"beta2":0.95,"gradient_clip":1.0},"evaluation":{"held_out":0.2,"tokens":1024},"seeds":{"init":0,"data":0,"sr":0,"rht":0},"numerics_version":1}');
INSERT INTO members VALUES('waiting-5a2a5e08','ef3ee8aa6365fdc3',0,'{"model":{"name":"1x32h2-m64","num_layers":1,"width":32,"num_heads":2,"mlp_width":64,"mlp":"swiglu"},"recipe":{"name":"bf16","fprop":{"left":{"grid":null,"block":16,"scale":"fp32","rounding":"rtne"},"right":{"grid":null,"block":16,"scale":"fp32","rounding":"rtne"},"rht":null},"dgrad":{"left":{"grid":null,"block":16,"scale":"fp32","rounding":"rtne"},"right":{"grid":null,"block":16,"scale":"fp32","rounding":"rtne"},"rht":null},"wgrad":{"left":{"grid":null,"block":16,"scale":"fp32","rounding":"rtne"},"right":{"grid":null,"block":16,"scale":"fp32","rounding":"rtne"},"rht":null},"rules":[]},"corpus":{"name":"/texts","kind":"text","path":"/texts","fingerprint":"47916e7ae706bf18a025e7c9f88c9d1cb790b61e06eb85dd4632a9e814a6b5d3","num_bytes":18732,"num_documents":12},"tokenizer":{"kind":"byte","vocab_size":257},"training":{"context":32,"batch_tokens":256,"learning_rate":0.01,"warmup_tokens":512,"cooldown":0.2,"weight_decay":0.1,"beta1":0.9,"beta2":0.95,"gradient_clip":1.0},"evaluation":{"held_out":0.2,"tokens":1024},"seeds":{"init":0,"data":0,"sr":0,"rht":0},"numerics_version":1}');
INSERT INTO members VALUES('waiting-5a2a5e08','f5a291040cdd8da8',1,'{"model":{"name":"1x32h2-m64","num_layers":1,"width":32,"num_heads":2,"mlp_width":64,"mlp":"swiglu"},"recipe":{"name":"ufp4","fprop":{"left":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":16,"scale":"fp32","rounding":"rtne"},"right":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":16,"scale":"fp32","rounding":"rtne"},"rht":16},"dgrad":{"left":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":16,"scale":"fp32","rounding":"sr"},"right":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":16,"scale":"fp32","rounding":"rtne"},"rht":16},"wgrad":{"left":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":16,"scale":"fp32","rounding":"sr"},"right":{"grid":{"name":"int4","magnitudes":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]},"block":16,"scale":"fp32","rounding":"rtne"},"rht":16},"rules":[]},"corpus":{"name":"/texts","kind":"text","path":"/texts","fingerprint":"47916e7ae706bf18a025e7c9f88c9d1cb790b61e06eb85dd4632a9e814a6b5d3","num_bytes":18732,"num_documents":12},"tokenizer":{"kind":"byte","vocab_size":257},"training":{"context":32,"batch_tokens":256,"learning_rate":0.01,"warmup_tokens":512,"cooldown":0.2,"weight_decay":0.1,"beta1":0.9,"beta2":0.95,"gradient_clip":1.0},"evaluation":{"held_out":0.2,"tokens":1024},"seeds":{"init":0,"data":0,"sr":0,"rht":0},"numerics_version":1}');
INSERT INTO members VALUES('waiting-5a2a5e08','da9cb58122ff07b6',2,'{"model":{"name":"1x32h2-m64","num_layers":1,"width":32,"num_heads":2,"mlp_width":64,"mlp":"swiglu"},"recipe":{"name":"own","fprop":{"left":{"grid":{"name":"e2m1","magnitudes":[0.0,0.5,1.0,1.5,2.0,3.0,4.0,6.0]},"block":32,"scale":"fp32","rounding":"rtne"},"right":{"grid":{"name":"e2m1","magnitudes":[0.0,0.5,1.0,1.5,2.0,3.0,4.0,6.0]},"block":32,"scale":"fp32","rounding":"rtne"},"rht":null},"dgrad":{"left":{"grid":{"name":"e2m1","magnitudes":[0.0,0.5,1.0,1.5,2.0,3.0,4.0,6.0]},"block":32,"scale":"fp32","rounding":"sr"},"right":{"grid":{"name":"e2m1","magnitudes":[0.0,0.5,1.0,1.5,2.0,3.0,4.0,6.0]},"block":32,"scale":"fp32","rounding":"rtne"},"rht":null},"wgrad":{"left":{"grid":{"name":"e2m1","magnitudes":[0.0,0.5,1.0,1.5,2.0,3.0,4.0,6.0]},"block":32,"scale":"fp32","rounding":"sr"},"right":{"grid":{"name":"e2m1","magnitudes":[0.0,0.5,1.0,1.5,2.0,3.0,4.0,6.0]},"block":32,"scale":"fp32","rounding":"rtne"},"rht":32},"rules":[{"pattern":"blocks.0.mlp.*","quantize":false}]},"corpus":{"name":"/texts","kind":"text","path":"/texts","fingerprint":"47916e7ae706bf18a025e7c9f88c9d1cb790b61e06eb85dd4632a9e814a6b5d3","num_bytes":18732,"num_documents":12},"tokenizer":{"kind":"byte","vocab_size":257},"training":{"context":32,"batch_tokens":256,"learning_rate":0.01,"warmup_tokens":512,"cooldown":0.2,"weight_decay":0.1,"beta1":0.9,"beta2":0.95,"gradient_clip":1.0},"evaluation":{"held_out":0.2,"tokens":1024},"seeds":{"init":0,"data":0,"sr":0,"rht":0},"numerics_version":1}');
CREATE TABLE asks (
	sweep_id VARCHAR(64) NOT NULL, 
	run_id VARCHAR(16) NOT NULL, 
	horizon BIGINT NOT NULL, 
	CONSTRAINT pk_asks PRIMARY KEY (sweep_id, run_id, horizon), 
	CONSTRAINT fk_asks_sweep_id_run_id_members FOREIGN KEY(sweep_id, run_id) REFERENCES members (sweep_id, run_id)
);
INSERT INTO asks VALUES('done-bf4af86f','ef3ee8aa6365fdc3',2048);
INSERT INTO asks VALUES('done-bf4af86f','ef3ee8aa6365fdc3',4096);
INSERT INTO asks VALUES('done-bf4af86f','3bec08cee624e32c',2048);
INSERT INTO asks VALUES('done-bf4af86f','3bec08cee624e32c',4096);
INSERT INTO asks VALUES('done-bf4af86f','f5a291040cdd8da8',2048);
INSERT INTO asks VALUES('done-bf4af86f','f5a291040cdd8da8',4096);
INSERT INTO asks VALUES('done-bf4af86f','da9cb58122ff07b6',2048);
INSERT INTO asks VALUES('done-bf4af86f','da9cb58122ff07b6',4096);
INSERT INTO asks VALUES('waiting-5a2a5e08','ef3ee8aa6365fdc3',2048);
INSERT INTO asks VALUES('waiting-5a2a5e08','ef3ee8aa6365fdc3',8192);
INSERT INTO asks VALUES('waiting-5a2a5e08','f5a291040cdd8da8',2048);
INSERT INTO asks VALUES('waiting-5a2a5e08','f5a291040cdd8da8',8192);
INSERT INTO asks VALUES('waiting-5a2a5e08','da9cb58122ff07b6',2048);
INSERT INTO asks VALUES('waiting-5a2a5e08','da9cb58122ff07b6',8192);
CREATE TABLE attempts (
	run_id VARCHAR(16) NOT NULL, 
	number BIGINT NOT NULL, 
	horizons JSON NOT NULL, 
	heard BIGINT NOT NULL, 
	lease_expires_at DATETIME NOT NULL, 
	stop_by DATETIME, 
	started_at DATETIME NOT NULL, 
	ended_at DATETIME, 
	reason VARCHAR(32), 
	detail TEXT NOT NULL, 
	CONSTRAINT pk_attempts PRIMARY KEY (run_id, number), 
	CONSTRAINT fk_attempts_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
INSERT INTO attempts VALUES('ef3ee8aa6365fdc3',1,'[2048, 4096]',20,'2026-11-30 03:13:52.734876',NULL,'2026-11-30 03:12:16.424371','2026-11-30 03:12:22.734876','completed','');
INSERT INTO attempts VALUES('3bec08cee624e32c',1,'[2048, 4096]',20,'2026-11-30 03:13:57.337758',NULL,'2026-11-30 03:12:22.889705','2026-11-30 03:12:27.337758','completed','');
INSERT INTO attempts VALUES('f5a291040cdd8da8',1,'[2048, 4096]',20,'2026-11-30 03:14:00.063887',NULL,'2026-11-30 03:12:27.484512','2026-11-30 03:12:30.063887','completed','');
INSERT INTO attempts VALUES('da9cb58122ff07b6',1,'[2048, 4096]',20,'2026-11-30 03:14:04.088831',NULL,'2026-11-30 03:12:30.172593','2026-11-30 03:12:34.088831','completed','');
CREATE TABLE events (
	run_id VARCHAR(16) NOT NULL, 
	version BIGINT NOT NULL, 
	source VARCHAR(32), 
	target VARCHAR(32) NOT NULL, 
	reason VARCHAR(32) NOT NULL, 
	detail TEXT NOT NULL, 
	attempt BIGINT NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_events PRIMARY KEY (run_id, version), 
	CONSTRAINT fk_events_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
INSERT INTO events VALUES('ef3ee8aa6365fdc3',1,NULL,'queued','planned','',0,'2026-11-30 03:11:48.747784');
INSERT INTO events VALUES('3bec08cee624e32c',1,NULL,'queued','planned','',0,'2026-11-30 03:11:48.747784');
INSERT INTO events VALUES('f5a291040cdd8da8',1,NULL,'queued','planned','',0,'2026-11-30 03:11:48.747784');
INSERT INTO events VALUES('da9cb58122ff07b6',1,NULL,'queued','planned','',0,'2026-11-30 03:11:48.747784');
INSERT INTO events VALUES('ef3ee8aa6365fdc3',2,'queued','running','launched','',1,'2026-11-30 03:12:16.424371');
INSERT INTO events VALUES('ef3ee8aa6365fdc3',3,'running','succeeded','completed','',1,'2026-11-30 03:12:22.734876');
INSERT INTO events VALUES('3bec08cee624e32c',2,'queued','running','launched','',1,'2026-11-30 03:12:22.889705');
INSERT INTO events VALUES('3bec08cee624e32c',3,'running','succeeded','completed','',1,'2026-11-30 03:12:27.337758');
INSERT INTO events VALUES('f5a291040cdd8da8',2,'queued','running','launched','',1,'2026-11-30 03:12:27.484512');
INSERT INTO events VALUES('f5a291040cdd8da8',3,'running','succeeded','completed','',1,'2026-11-30 03:12:30.063887');
INSERT INTO events VALUES('da9cb58122ff07b6',2,'queued','running','launched','',1,'2026-11-30 03:12:30.172593');
INSERT INTO events VALUES('da9cb58122ff07b6',3,'running','succeeded','completed','',1,'2026-11-30 03:12:34.088831');
INSERT INTO events VALUES('ef3ee8aa6365fdc3',4,'succeeded','queued','horizon_added','',1,'2026-11-30 03:13:10.840427');
INSERT INTO events VALUES('f5a291040cdd8da8',4,'succeeded','queued','horizon_added','',1,'2026-11-30 03:13:10.840427');
INSERT INTO events VALUES('da9cb58122ff07b6',4,'succeeded','queued','horizon_added','',1,'2026-11-30 03:13:10.840427');
CREATE TABLE endpoints (
	run_id VARCHAR(16) NOT NULL, 
	tokens BIGINT NOT NULL, 
	attempt BIGINT NOT NULL, 
	loss DOUBLE, 
	loss_se DOUBLE, 
	loss_bf16 DOUBLE, 
	train_loss DOUBLE, 
	eval_tokens BIGINT NOT NULL, 
	bytes_per_token DOUBLE, 
	unigram_entropy DOUBLE, 
	measured_at DATETIME NOT NULL, 
	CONSTRAINT pk_endpoints PRIMARY KEY (run_id, tokens), 
	CONSTRAINT fk_endpoints_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
INSERT INTO endpoints VALUES('ef3ee8aa6365fdc3',2048,1,3.0096789966337382793,0.010543794865003286442,3.0096789966337382793,3.1410398483276367187,1024,0.9990234375,2.6727897102943432017,'2026-11-30 03:12:19.959870');
INSERT INTO endpoints VALUES('ef3ee8aa6365fdc3',4096,1,1.7131044854177162051,0.020824393271247049197,1.7131044854177162051,1.6977926492691040039,1024,0.9990234375,2.6727897102943432017,'2026-11-30 03:12:22.734876');
INSERT INTO endpoints VALUES('3bec08cee624e32c',2048,1,3.0133632009383291006,0.01098747271270099704,3.0123076215386390686,3.1459572315216064453,1024,0.9990234375,2.6727897102943432017,'2026-11-30 03:12:25.353223');
INSERT INTO endpoints VALUES('3bec08cee624e32c',4096,1,1.7604956310242414474,0.019952138666694641672,1.7579721655929461121,1.7432541847229003906,1024,0.9990234375,2.6727897102943432017,'2026-11-30 03:12:27.337758');
INSERT INTO endpoints VALUES('f5a291040cdd8da8',2048,1,3.0137180846650153398,0.010701603624631484193,3.0120345281902700662,3.1459445953369140625,1024,0.9990234375,2.6727897102943432017,'2026-11-30 03:12:28.882250');
INSERT INTO endpoints VALUES('f5a291040cdd8da8',4096,1,1.7593515472835861146,0.020575069076642242549,1.7577646592981182038,1.7434983253479003906,1024,0.9990234375,2.6727897102943432017,'2026-11-30 03:12:30.063887');
INSERT INTO endpoints VALUES('da9cb58122ff07b6',2048,1,3.0105156316421926021,0.01051461905286644842,3.010580223286524415,3.1384685039520263671,1024,0.9990234375,2.6727897102943432017,'2026-11-30 03:12:31.825683');
INSERT INTO endpoints VALUES('da9cb58122ff07b6',4096,1,1.740644233301281929,0.019679898549338284419,1.7418234097422100603,1.7362195253372192382,1024,0.9990234375,2.6727897102943432017,'2026-11-30 03:12:34.088831');
CREATE TABLE curves (
	run_id VARCHAR(16) NOT NULL, 
	attempt BIGINT NOT NULL, 
	first_event BIGINT NOT NULL, 
	horizon BIGINT, 
	first_tokens BIGINT NOT NULL, 
	last_tokens BIGINT NOT NULL, 
	superseded_from BIGINT, 
	columns BLOB NOT NULL, 
	CONSTRAINT pk_curves PRIMARY KEY (run_id, attempt, first_event), 
	CONSTRAINT fk_curves_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
INSERT INTO curves VALUES('ef3ee8aa6365fdc3',1,0,NULL,256,768,NULL,X'789c636480002628cd0ca51918714930303877893900a907f2eb4441b443b9968843b5c83af7875525f610ba054e83d4eddaf3014437f0ac04d30c5d7f3eda9ff87e56d26942bf43caf39477c73b163b7cbc5b7ffb94ef02a0799bf72db1b860cfd060942675ec1a904eec7f37ff9e3d00ed7c3093');
INSERT INTO curves VALUES('ef3ee8aa6365fdc3',1,3,NULL,1024,1536,NULL,X'789c636180005628cd06a5195870493034f0ae167200d20a1bbf0980e886d4423e876a9175ee0fab5aecd169a07c42feafcf605a61e15710ad103afb9bfd1cf313dd7ff916389ce4dc5b673771a6c31f8f75a5720b663b303804a658fb3cb6677090de71d7f7853d43c3fd052c1fded80300c05e2dc5');
INSERT INTO curves VALUES('ef3ee8aa6365fdc3',1,6,2048,1792,1792,NULL,X'789c6367800276188341e1f01c6e876a9175ee0fab5aec81fc04cb055feddb33afe44ce35ce0c090f045ee62d9077b0016580f7f');
INSERT INTO curves VALUES('ef3ee8aa6365fdc3',1,7,2048,2048,2048,NULL,X'789ce36080020e1883a1e1a602a743b5c83af7875525f640be83e296cff693e6b2b29da899e4c0d01050c8f5f6b33d0008a60e66');
INSERT INTO curves VALUES('ef3ee8aa6365fdc3',1,9,NULL,1792,2048,NULL,X'789c636780000e28cdc08e2ec0a070780eb703906eb8a9c0e9502db2cefd61558b3d8c068a27582ef80aa21d14b77cb63fe77db073f9d21e0735a3535b5ca33b1c1814e63e7892f2c39e6141d335db657fed015f6b1f8f');
INSERT INTO curves VALUES('ef3ee8aa6365fdc3',1,11,NULL,2304,2816,NULL,X'789ce36480002e28cd0da5193871493030d8b2b03b00a9071b1858413483ef7766876a9175ee0fab5aecd16990baeb0e9f40b4c2d1ee0f20bac149e6b5fddd5f7f6ca2747b1c56ccbf25ef70b1dba1ce65e16dbbaf131c1836ec5b335582d18121406ce1c45466078686d7324b3d581d006cc62b96');
INSERT INTO curves VALUES('ef3ee8aa6365fdc3',1,14,NULL,3072,3328,NULL,X'789ce36180005e28cdc0832ec0f0405580c90148273c7dcbe0502db2cefd61558b3d8c068a379c537a05a219bc635edbcb77e43fdb7ebecfa1c8fee6433ec9890e0c13d8f35263d81d182eb488b45a733a00004e1b1bdb');
INSERT INTO curves VALUES('ef3ee8aa6365fdc3',1,16,4096,3584,4096,NULL,X'789ce36380007e282d00a519f870493034f01ffb6f0fa40f5c30fa0ba2176868fdb6af1659e7feb0aac5de4ffac59646bf6a289d0d569798ff1c4427ec1207d30caba63fb3377f1ff4f609e36c87b9ebd79caffdbbc5616522a38045ee2a078603efb36f6471393004b0eb649d01d20d4fde64a4733b0000ef702f50');
INSERT INTO curves VALUES('3bec08cee624e32c',1,0,NULL,256,768,NULL,X'789c636480002628cd0ca519187149303c08ec147300d20ab66b454174c24d7311876a9175ee0fab4aec21740b9c06ca1fd8b8e903887ea0bb0e4c1f707bf0d1fe91bac984451a9d0ecd7e029ef54b6639a8ad4bb861737819d0bc2fce6723af00d5fdfb32ffeb5d7b8686a7bdd34e3db40700fc113064');
INSERT INTO curves VALUES('3bec08cee624e32c',1,3,NULL,1024,1280,NULL,X'789c636180005628cdc0822ec0c0b06d879003904a28631674a81659e7feb0aac51e4603c515c2567f06d10c26b95fed776eb9cdeb3c6f82c39cdc991754e5e638301c983c3fadeea53d4303d3bf13dcefec01143a1d7e');
INSERT INTO curves VALUES('3bec08cee624e32c',1,5,NULL,1536,1536,NULL,X'789c636380023618832161692f9f43b5c83af787552df640fe0189a9dfec9d3e7ef55b787982038302e7f4a9973fd9030025a71044');
INSERT INTO curves VALUES('3bec08cee624e32c',1,6,2048,1792,1792,NULL,X'789c6367800276188341e1ff566e876a9175ee0fab5aec81fc0483055fed576bcfbc119834cf8141418effe2bb2ff6001d430f4b');
INSERT INTO curves VALUES('3bec08cee624e32c',1,7,2048,2048,2048,NULL,X'789ce36080020e188361c16b2d4e876a9175ee0fab4aec81fc07823b3fdb77cc65ce5c98d5ebc0c0307fd27e8f9ff6001eda0f56');
INSERT INTO curves VALUES('3bec08cee624e32c',1,9,NULL,1792,2048,NULL,X'789c636780000e28cdc08e2ec0a0f07f2bb703905ef05a8bd3a15a649dfbc3aa167b180d144f3058f015443f10dcf9d93ed985f7c879ff090ed593a62f5a3669ba038343e4695dd3bff60c0e5c46e66ffedb03007de81e5a');
INSERT INTO curves VALUES('3bec08cee624e32c',1,11,NULL,2304,3072,NULL,X'789ce36480002e28cd0da579a034032721050c0f0e09b13b00e9866c1156107d20e80f338856986cc7e4502db2cefd61558b3d2e1a6480fdaf8f20fa8194e60710ed6014fc0a4427cc4d7869cfdec39a61d9bad0417f49468effbc290e5b95ee4fbdba6f9143c5e4ca0281c7ab1d1812e2f29fdc67706030b01335cd65726038d0ba639b3bd0fe076b974dbfc5ec0000a8f53922');
INSERT INTO curves VALUES('3bec08cee624e32c',1,15,NULL,3328,3328,NULL,X'789ce36580025e188361c1425d46876a9175ee0fab5aec81fc037bdebfb27fc9b9b2b87aee14078682fb8e3fd2591d002f88102e');
INSERT INTO curves VALUES('3bec08cee624e32c',1,16,4096,3584,4096,NULL,X'789ce36380007e282d00a519f87049303c7828cde000a415744efcb507d20d714f7edb578bac737f58d562ef27fd624ba35f3594ce06cb975e7f0ea217b07b3e03f3579d7c6a9fb7e6bdc646cd690e619a1b7f71682c746839d3326f9bc20e0786804d2a336fb239302cb8762dfc04bb03434171a5a52c870300bfcd2e75');
INSERT INTO curves VALUES('f5a291040cdd8da8',1,0,NULL,256,768,NULL,X'789c636480002628cd0ca519187149302c88e8127300d20d77368982e807f516220ed522ebdc1f5695d843e816380dd260ddf301441f685d0aa6133ab67fb4978bdad879a5648ac337ce87470ade4e715094147e7ae9c802a0791c7b53d84f02d539f2b9eebf61cfd0d019bddee0813d000ae72d36');
INSERT INTO curves VALUES('f5a291040cdd8da8',1,3,NULL,1024,1280,NULL,X'789c636180005628cdc0822ec0f0e0fb0e2107101dc424e8502db2cefd61558b3d8c068a2b3c38f019443734547fb557b2ef88f9ea3fd5a12e7ccec3fae9f31c181c64761b193db36768b8753434f1953d00a57c1fa0');
INSERT INTO curves VALUES('f5a291040cdd8da8',1,5,NULL,1536,1536,NULL,X'789c6363800236188321614f1f9f43b5c83af787552df6407ec3f5fa6ff67213f5b6fdce99ecc0b020ff9568cd077b0027f91038');
INSERT INTO curves VALUES('f5a291040cdd8da8',1,6,2048,1792,2048,NULL,X'789c636780000e28cdc08e2ec0d010bd91db01c478aac5e9502db2cefd61558b3d842eb1070a2b282cfe0aa21bdeccfb6ccf5892a0a674e8a0c325734725b6a4a3407ddf3e67beff60cfd0e0f0cbc0ffa33d001fad1d67');
INSERT INTO curves VALUES('f5a291040cdd8da8',1,9,NULL,1792,2048,NULL,X'789c636780000e28cdc08e2ec0d010bd91db01c478aac5e9502db2cefd61558b3d8c060a2b282cfe0aa21bdeccfb6ccff9687762a8c80987d45a8b5922a2071d180e5cbd68b7e423507ef67c25994ff60035361d5c');
INSERT INTO curves VALUES('f5a291040cdd8da8',1,11,NULL,2304,3328,NULL,X'789ce36480002e28cd0da579a0342f9466e024562183c24a7e760710c3478915443fb82ece02a6956d99407483ac39a343b5c83af787552df68468a0fa03f9129f4074c3f2820f203a217afb2b30df5af025885ef040f3953de76d0ec936f7f50edc73c2a6be8c5de4a05bb0e6ebdf25cb1da4bab7dfff91b2db61d16be1899257b601eddf98c7a1f4d99e2121e832ef832ff60c072abfb4587d03d2933e725e00d20ee66bca9abfdb0300b2c64b7d');
INSERT INTO curves VALUES('f5a291040cdd8da8',1,16,4096,3584,3840,NULL,X'789ce36380007e28cdc0872ec07060a5328303907eb0e9ec5ffb6a9175ee0fab5aecfda45f6c69f4abb6078a37684f7b06a2131e5d7b66bf3df5eed4fcde050ef657375cba51bcdc81a1e16c4042d14f7b8605dbcad79eff650f0021b223d0');
INSERT INTO curves VALUES('f5a291040cdd8da8',1,18,4096,4096,4096,NULL,X'789c13608002011883a121eee96f7b3fe9175b1afdb2ed81fc07b1a79ed92b2f2dbbf573f514078603ab8a1c5ffcb5070059fd1299');
INSERT INTO curves VALUES('da9cb58122ff07b6',1,0,NULL,256,512,NULL,X'789c636480002628cdc0882ec0a0f0b25dcc01481fd8b356d4a15a649dfbc3aa127b08dd620f92af3bf901442758ccff609f63f7fb7bf1c96d0e96cabbe6a9242e01eabbc12854b10c28afbef7acee217b007fb21dad');
INSERT INTO curves VALUES('da9cb58122ff07b6',1,2,NULL,768,1536,NULL,X'789c636680001628cd0aa5d9a034033321050c0e19aa220e207ae3022110dde0f15a00442b68a4f239548bac737f58d5628f8b06aa3bb054fc138856e017f902e6a76cff0aa6cb677eb317f9a2774267f92c87f21b811a0b672d72289609e457cc5dea5012aa57377df512078686fd7987365eb26768908c979c7c13a86f42637ecf7d20ed587eebde237b006c4a3a1b');
INSERT INTO curves VALUES('da9cb58122ff07b6',1,6,2048,1792,1792,NULL,X'789c63678002761883e141ed0c6e876a9175ee0fab5aec41fc65f55fedef96944cbd76f3980303c3152de9498fed0142c91106');
INSERT INTO curves VALUES('da9cb58122ff07b6',1,7,2048,2048,2048,NULL,X'789ce36080020e18832161aa34a743b5c83af7875525f640bec28e299fedb99215376ce33be2c070c0657760dc137b00fd650e31');
INSERT INTO curves VALUES('da9cb58122ff07b6',1,9,NULL,1792,2048,NULL,X'789c636780000e28cdc08e2ec0f0a07606b703904e982acde9502db2cefd61558b3d8c06c92fabff0aa215764cf96cffff50a4e6d9c0690e3fc5e2665aab2c726068909a5322f5ca9ec1a160f2e4856fed0182801ee1');
INSERT INTO curves VALUES('da9cb58122ff07b6',1,11,NULL,2304,2816,NULL,X'789ce36480002e28cd0da519387149303c9011607700d20d57445941b4c32e4916876a9175ee0fab5aecd1699086d3fa9fc0744ef20710bde0c8bc57f6d93c87ae3e5298e6c0cf647f625bd80c8724d176e7a59f163a302cd86064b8f5a33dc301d195d1615f80ea9df69e92fb660f00335f2b80');
INSERT INTO curves VALUES('da9cb58122ff07b6',1,14,NULL,3072,3328,NULL,X'789ce36180005e28cdc0832ec0d0a06cc3e400a417086b333a548bac737f58d5620fa3410ada055f82e80713835ed907aee6e60cb7ed75b0af8b7a53ff68b60343c285d565f5bf80f27e9e6ca7ffd80300d52f1bbf');
INSERT INTO curves VALUES('da9cb58122ff07b6',1,16,4096,3584,3840,NULL,X'789ce36380007e28cdc0872ec0e0c025cfe000a4179c3af8d7be5a649dfbc3aa167b3fe9175b1afdaaed81e2078e7e7e0ea2131e4e7b6e7ff9d215c74d1b66382438af4ecf9fb5c081e1c1b97fb393fedb33184cbec0b082c10100ea5f220a');
INSERT INTO curves VALUES('da9cb58122ff07b6',1,18,4096,4096,4096,NULL,X'789c1360800201188341a1eff86f7b3fe9175b1afdb2ed81fc07d7573cb30fbb7ac9f658f87c07860b1faec6ad65740000551111e9');
CREATE INDEX ix_sweeps_name ON sweeps (name);
CREATE INDEX ix_runs_position ON runs (position);
CREATE INDEX ix_runs_state_position ON runs (state, position);
CREATE INDEX ix_asks_run_id_horizon ON asks (run_id, horizon);
CREATE INDEX ix_curves_run_id_horizon_last_tokens ON curves (run_id, horizon, last_tokens);
COMMIT;
